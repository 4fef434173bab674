// Below the timeline: facts of the chosen slice, or kernels and other work in the selected time.

import { amount, percent } from "../../../text.js";
import { exactly } from "../../shared/frame_choices.js";
import { SLICE } from "../../../kinds.js";
import { element } from "../ui/dom.js";
import { button, table } from "../ui/elements.js";
import { moment } from "../ui/time_text.js";
import { knownOf } from "./words.js";

const MOST = 8;

export class Details {
  constructor(app, on) {
    this.app = app;
    this.on = on;
    this.body = element("div.tl-details");
    this.body.hidden = true;
  }

  nothing() {
    this.body.hidden = true;
    this.shown = null;
  }

  slice(about, slice) {
    const label = about.kinds[slice.kind].label;
    const actions = [button("Fit", () => this.on.fit(slice.begin, slice.end), "Zoom to it (Enter)")];
    actions.push(button("◂", () => this.on.choose(slice.before), "The one before (←)"), button("▸", () => this.on.choose(slice.after), "The next (→)"));
    if (this.app.blocks.includes("facts.device") && slice.kind === SLICE.KERNEL) {
      actions.push(button("In the flame graph", () => this.app.go("flame", { metric: "gpu-time", search: exactly(slice.name) })));
    }
    const words = element("dl");
    for (const [word, texts] of knownOf(about, slice)) {
      words.append(element("div", {}, element("dt", {}, word), element("dd", {}, ...texts.map((text) => element("div", {}, text)))));
    }
    this.#show(slice, element("h2", {}, element("span", {}, slice.name), element("small", {}, label)), actions, words);
    if (slice.kind === SLICE.KERNEL) this.#offerSource(slice);
    const layer = slice.facts.layer ? `, layer ${slice.facts.layer[0]}` : "";
    this.app.say(`${slice.name}, ${amount(slice.end - slice.begin, "ns")}${slice.step >= 0 ? `, step ${slice.step}` : ""}${layer}`);
  }

  /** Of kernels that have a page. */
  async #offerSource(slice) {
    if (!this.app.blocks.includes("code")) return;
    const { kernels } = await this.app.data.ask("kernels");
    if (this.shown !== slice || !kernels.some(({ name, short }) => name === slice.name || short === slice.name)) return;
    this.body.querySelector(".tl-actions").append(button("Source and SASS", () => this.app.go("code", { kernel: slice.name })));
  }

  async range(about, range) {
    const title = `${amount(range.end - range.begin, "ns")} from ${moment(range.begin, (range.end - range.begin) / 100)}`;
    const actions = [button("Fit", () => this.on.fit(range.begin, range.end), "Zoom to it")];
    this.#show(range, element("h2", {}, title, element("small", {}, "selected")), actions, element("p", {}, "…"));
    const { total, names, rows, streams } = await this.app.data.ask("timeline.totals", { ...range, most: MOST });
    if (this.shown !== range) return;
    const list = table(
      ["on devices", "time", "share", "times"],
      rows.map(({ name, value, count }) => [name, amount(Math.round(value), "ns"), percent(value, total), count.toLocaleString("en-US")]),
    );
    const busy = streams.map(({ lane, busy: value }) => [
      `${about.tracks[about.lanes[lane].track].name}`,
      percent(value, range.end - range.begin),
    ]);
    const nothing = element("p", {}, "Nothing ran on a device in it.");
    const more = names > rows.length ? [element("p.tl-more", {}, `and ${names - rows.length} more`)] : [];
    const what = rows.length ? element("div.tl-totals", {}, element("div", {}, list, ...more), table(["stream", "busy"], busy)) : nothing;
    this.#show(range, element("h2", {}, title, element("small", {}, `${amount(Math.round(total), "ns")} on devices`)), actions, what);
    this.app.say(`${title} selected, ${amount(Math.round(total), "ns")} on devices. ${rows[0] ? `Most: ${rows[0].name}, ${percent(rows[0].value, total)}` : ""}`);
    await this.#offerFlame(about, range, actions);
  }

  /** The same time in the flame graph, which knows it in bins. */
  async #offerFlame(about, range, actions) {
    const domains = await this.app.data.ask("scope.about", { blocks: this.app.blocks });
    const domain = domains.find((one) => one.bins && one.metrics.length);
    if (!domain || this.shown !== range) return;
    const bin = (time) => Math.floor((about.origin + time - domain.bins.origin_ns) / domain.bins.bin_ns);
    const [from, to] = [Math.max(0, bin(range.begin)), Math.min(domain.bins.count - 1, bin(range.end))];
    if (from > to) return;
    const open = () => this.app.go("flame", { metric: domain.metrics[0].name, range: `${from}-${to}` });
    const made = button("Flame graph of this time", open, "Of the bins of time that it touches");
    made.classList.add("tl-flame");
    actions.push(made);
    this.body.querySelector(".tl-actions").append(made);
  }

  #show(what, title, actions, content) {
    this.shown = what;
    this.body.hidden = false;
    const close = button("×", () => this.on.clear(), "Close (Escape)");
    this.body.replaceChildren(element("div.tl-head", {}, title, element("span.tl-actions", {}, ...actions), close), content);
  }
}
