// Kernels, layers and ops against the limits of their device.

import { CLASSES, classOf } from "../../../limit_classes.js";
import { amount, clip, percent } from "../../../text.js";
import { exactly } from "../../shared/frame_choices.js";
import { element, wide } from "../ui/dom.js";
import { leadOf } from "../ui/leads.js";
import { draw } from "./chart.js";
import { bytesPerSecond, factsOf, operations, reached } from "./words.js";

const KINDS = { kernels: "Kernels", layers: "Layers", ops: "Ops" };
const MOST_LISTED = 15;
const TYPES = [["bf16", "bf16"], ["tf32", "TF32"], ["fp8", "fp8"], ["fp64", "fp64"]];

export const view = {
  name: "limits",
  title: "Roofline",
  key: "8",
  scope: "remade",
  keys: [["g", "kernels, layers or ops"]],
  /** Programs that used no device have no limits of one. */
  there: (app) => app.blocks.includes("limits"),
  create: (app) => new Limits(app),
};

class Limits {
  #app;
  #told = null;
  #state = {};
  #room = element("div.limit-room");
  #svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  #tip = element("div.limit-tip", { role: "tooltip", hidden: true });
  #kinds = element("div.limit-kinds", { role: "group", "aria-label": "Points" });
  #listed = element("div.limit-list");
  #drawn = ""; // by the picture

  constructor(app) {
    this.#app = app;
    this.body = element("section.limits", { "aria-label": "Roofline" });
    this.#svg.setAttribute("role", "group");
    this.#svg.setAttribute("aria-label", "Kernels against the peaks of the device");
    this.#room.append(this.#svg, this.#tip);
    new ResizeObserver(() => this.#draw()).observe(this.#room);
  }

  async show(state) {
    this.#state = state;
    if (!this.#told) {
      this.#told = await this.#app.data.ask("limits", { block: this.#app.summary.limits ?? "limits" });
      this.#build();
    }
    if (this.#told.why) return;
    for (const link of /** @type {Iterable<HTMLElement>} */ (this.#kinds.children)) {
      if (link.dataset.of === this.#kind()) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    this.#draw();
    this.#list();
  }

  leave() {
    this.#tip.hidden = true;
  }

  key(event) {
    if (event.key !== "g" || this.#told?.why) return false;
    const names = this.#offered();
    this.#app.go("limits", { of: names[(names.indexOf(this.#kind()) + 1) % names.length] });
    return true;
  }

  #build() {
    const { why, used } = this.#told;
    if (why) {
      const more = "With them, this page shows each kernel's bytes and arithmetic against the peaks of the device.";
      this.body.replaceChildren(element("p.note", {}, why, element("br"), more));
      return;
    }
    for (const name of this.#offered()) {
      const link = this.#app.link(".table-name", "limits", { of: name }, KINDS[name]);
      link.dataset.of = name;
      this.#kinds.append(link);
    }
    const swatches = CLASSES.map((text, number) => element("li", {}, element(`i.swatch.reach-${number}`), text));
    const some = used.counted < 0.95 ? ` (by the ${percent(used.counted, 1)} of kernels' time with ${used.modelled ? "shapes" : "counters"})` : "";
    const how = used.another_run ? ", counted in another run" : used.modelled ? ", modelled from the shapes of ops" : "";
    const arithmetic = used.modelled ? "arithmetic ran" : "tensor cores worked";
    const rates = `${arithmetic} at ${percent(used.tensor, 1)} of ${used.modelled ? "its" : "their"} rate, memory at ${percent(used.memory, 1)} of its bandwidth${some}${how}.`;
    const least = ` At their limits, these kernels would take ${percent(used.limit, 1)} of the time.`;
    const legend = element("div.limit-legend", {}, element("span.soft.fine", {}, "of the limit:"), element("ul.legend", {}, ...swatches));
    this.body.replaceChildren(
      element(
        "section.card.limit-card",
        {},
        element("div.head", {}, element("h2", {}, "How near to the device's limits"), this.#kinds, legend),
        element("p.limit-used", {}, `Of all the time of ${this.#app.scope === "steps" ? "steady steps" : "the run"}, ${rates}${least}`),
        this.#room,
      ),
      element("section.card.limit-card", {}, element("div.head", {}, element("h2", {}, "Most to win")), this.#listed),
      element("p.soft.fine.limit-peaks", {}, ...this.#peaks()),
    );
  }

  /** The figures behind the lines, and where they are from. */
  #peaks() {
    const told = this.#told.devices.map((device) => {
      const types = TYPES.filter(([field]) => device[field]).map(([field, name]) => `${operations(device[field])} ${name}`);
      return `${device.name}: memory ${bytesPerSecond(device.memory)}; tensor cores ${types.join(", ")} (vendor's figures: ${device.source}). `;
    });
    const work = this.#told.used.modelled ? "operations at the peak rate of their type" : "cycles of tensor cores at their full rate";
    const what = `A limit is the longer of two times: bytes at the peak bandwidth, and ${work}, which is drawn as bf16 whatever the type. Large points took long. `;
    return [what, ...told];
  }

  #offered() {
    return Object.keys(KINDS).filter((name) => this.#told.rows[name]?.length);
  }

  #kind() {
    const names = this.#offered();
    return names.includes(this.#state.of) ? this.#state.of : names[0];
  }

  #rows() {
    return this.#told.rows[this.#kind()];
  }

  #device(row) {
    return this.#told.devices.find((one) => one.name === row.device) ?? this.#told.devices[0];
  }

  #draw() {
    const width = Math.floor(this.#room.clientWidth);
    if (!this.#told || this.#told.why || width < 50) return;
    const shows = `${this.#kind()} ${width} ${this.#app.scope}`;
    if (shows === this.#drawn) return;
    this.#drawn = shows;
    this.#tip.hidden = true;
    draw(this.#svg, this.#rows(), this.#told.devices[0], width, {
      lead: (row) => this.#app.link("", ...this.#leadOf(row)).getAttribute("href"),
      met: (row, event, at) => this.#describe(row, event, at),
      left: () => (this.#tip.hidden = true),
    });
    this.#svg.dataset.drawn = this.#kind();
  }

  /** Where a row's time is shown: its source, else its frames. */
  #leadOf(row) {
    const kind = this.#kind();
    if (kind === "kernels" && !this.#app.blocks.includes("code")) return ["flame", { metric: "gpu-time", by: "code", search: exactly(row.short) }];
    const columns = { kernels: { name: row.name }, layers: { layer: row.name }, ops: { op: row.name } }[kind];
    return leadOf({ name: kind }, columns, this.#app.summary);
  }

  #describe(row, event, at) {
    const whole = this.#rows().reduce((sum, one) => sum + one.took, 0);
    const facts = factsOf(row, this.#device(row), whole).flatMap(([label, value]) => [element("dt", {}, label), element("dd", {}, value)]);
    const place = row.place ? [element("div.soft.fine", {}, clip(row.place, 120))] : [];
    this.#tip.replaceChildren(element("strong", {}, clip(row.short, 160)), ...place, element("dl", {}, ...facts));
    this.#tip.hidden = false;
    const box = this.#room.getBoundingClientRect();
    const point = at.getBoundingClientRect();
    const [x, y] = event.clientX === undefined ? [point.right, point.bottom] : [event.clientX, event.clientY];
    const { offsetWidth: broad, offsetHeight: tall } = this.#tip;
    const left = x - box.x + 16 + broad > box.width ? x - box.x - 14 - broad : x - box.x + 16;
    const top = Math.min(y - box.y + 16, box.height - tall - 4);
    this.#tip.style.left = `${Math.max(2, left)}px`;
    this.#tip.style.top = `${Math.max(2, top)}px`;
  }

  #list() {
    const rows = [...this.#rows()].sort((one, other) => other.could_win - one.could_win).filter((row) => row.could_win > 0);
    const heads = [KINDS[this.#kind()].slice(0, -1), "Time", "Of its limit", "Bound by", "Could win"];
    const classes = ["", ".number", "", "", ".number"];
    const head = element("tr", {}, ...heads.map((text, number) => element(`th${classes[number]}`, {}, text)));
    const body = rows.slice(0, MOST_LISTED).map((row) => {
      const bar = wide(element(`i.reach-${classOf(row.limit)}`), row.limit);
      return element(
        "tr",
        {},
        element("td.limit-short", { title: row.short }, this.#app.link("", ...this.#leadOf(row), row.short)),
        element("td.number", {}, amount(row.took, "ns")),
        element("td.limit-bar", {}, element("span.limit-track", { "aria-hidden": "true" }, bar), element("span", {}, reached(row))),
        element("td.soft", {}, row.bound_by || "–"),
        element("td.number", {}, amount(row.could_win, "ns")),
      );
    });
    this.#listed.replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
  }
}
