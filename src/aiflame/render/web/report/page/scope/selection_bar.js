// Below the heat map: the selected time, where that time went, and links to other views of it.

import { amount, percent } from "../../../text.js";
import { element } from "../ui/dom.js";
import { button, table } from "../ui/elements.js";
import { moment } from "../ui/time_text.js";
import { possible, valued } from "./words.js";

const TITLES = { kernel: "Kernels", function: "Python functions", layer: "Layers", phase: "Phases" };

export class SelectionBar {
  constructor(app, on) {
    this.app = app;
    this.on = on;
    this.body = element("div.sc-strip");
  }

  say(text) {
    this.shown = null;
    this.body.replaceChildren(element("p", {}, text));
  }

  nothing(by) {
    this.say(`Drag over ${by === "step" ? "steps" : "cells"}, or click where a range begins and where it ends. With the keyboard: arrows, Shift, Enter.`);
  }

  async selected({ grid, metric, selection, given, aloud }) {
    const words = selectionText(grid, selection);
    this.shown = given;
    this.range = words;
    const part = await this.app.data.ask("scope.part", given);
    if (this.shown !== given) return;
    const all = valued(part.total, metric);
    const busy = possible(part.total, words.length, metric);
    const actions = [button("Flame graph of this ⏎", () => this.on.open(), "What ran in it (Enter)")];
    actions[0].classList.add("sc-open");
    actions.push(button("Compare with the rest", () => this.on.compare(), "What took more or less than elsewhere (Shift+Enter)"));
    actions.at(-1).classList.add("sc-compare");
    if (this.app.blocks.includes("timeline")) actions.push(button("Timeline", () => this.on.timeline()));
    actions.push(button("×", () => this.on.clear(), "Clear (Escape)"));
    const title = element("h2", {}, words.text, element("small", {}, [all, busy].filter(Boolean).join(" · ")));
    const lists = Object.entries(part.lists).filter(([, rows]) => rows.length);
    const titles = given.domain === "device" ? TITLES : { ...TITLES, kernel: "Functions" };
    const tables = lists.map(([segment, rows]) =>
      table([titles[segment], ""], rows.map(({ name, value }) => [name, percent(value, part.total)])),
    );
    this.body.replaceChildren(element("div.sc-head", {}, title, element("span.sc-actions", {}, ...actions)), element("div.sc-tables", {}, ...tables));
    if (aloud) this.app.say(`${words.text} selected: ${all}. ${lists.map(([segment, [top]]) => `${titles[segment]}: ${top.name} ${percent(top.value, part.total)}`).join(". ")}`);
  }

  /** The same time in the timeline. */
  async openTimeline() {
    const about = await this.app.data.ask("timeline.about");
    const [from, to] = [this.range.begin, this.range.end].map((time) => Math.round(time + this.range.origin - about.origin));
    const around = Math.round((to - from) * 0.2);
    const time = `${Math.max(0, from - around)}-${Math.min(about.length, to + around)}`;
    this.app.go("timeline", { time, mark: `${Math.max(0, from)}-${Math.max(1, to)}` });
  }
}

/** {text, begin, end (ns after the origin), length (ns)} */
function selectionText(grid, [first, last]) {
  if (grid.kind === "time") {
    const [begin, end] = [grid.begin(first), grid.begin(last + 1)];
    return { text: `${moment(begin, grid.cell)} … ${moment(end, grid.cell)}`, begin, end, length: end - begin, origin: grid.bins.origin_ns };
  }
  const [from, to] = [first, last].map((index) => grid.steps[Math.floor(index / grid.rows)]);
  const length = grid.steps.filter((step) => step.number >= from.number && step.number <= to.number).reduce((sum, step) => sum + step.end - step.begin, 0);
  const text = from === to ? `Step ${from.number}` : `Steps ${from.number} to ${to.number}`;
  return { text: `${text}, ${amount(length, "ns")}`, begin: from.begin, end: to.end, length, origin: grid.origin };
}
