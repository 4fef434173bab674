// The map of device memory at a moment: segments of torch's caching allocator, the blocks in them, and the holes between these.

import { amount, clip, percent } from "../../../text.js";
import { element } from "../ui/dom.js";
import { colorsOfParts } from "../ui/part_colors.js";
import { MemoryCard } from "./card.js";

export const view = {
  name: "memory",
  title: "Memory map",
  key: "9",
  keys: [
    ["m", "the next moment"],
    ["← →", "the segment before, the next one"],
  ],
  /** Profiles without segments of an allocator have no map. */
  there: (app) => app.blocks.includes("memory"),
  create: (app) => new MemoryView(app),
};

class MemoryView {
  #app;
  #told = null;
  #state = {};
  #shown = "";
  #cards = [];
  #moments = element("div.map-moments", { role: "group", "aria-label": "Moments" });
  #legend = element("ul.legend.map-legend");
  #room = element("div.map-room");

  constructor(app) {
    this.#app = app;
    const head = element("div.map-head", {}, this.#moments, this.#legend);
    this.body = element("section.memory-map", { "aria-label": "Memory map" }, head, this.#room);
  }

  async show(state) {
    this.#state = state;
    if (!this.#told) {
      this.#told = await this.#app.data.ask("memory");
      for (const { name, label } of this.#told.moments) {
        const link = this.#app.link(".table-name", "memory", { at: name }, label);
        link.dataset.at = name;
        this.#moments.append(link);
      }
    }
    for (const link of /** @type {Iterable<HTMLElement>} */ (this.#moments.children)) {
      if (link.dataset.at === this.#moment().name) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    const shows = `${this.#moment().name} ${this.#app.theme()}`;
    if (shows !== this.#shown) this.#fill();
    this.#shown = shows;
    for (const card of this.#cards) card.choose(this.#state.of === card.name ? Number(this.#state.segment ?? -1) : -1);
  }

  key(event) {
    if (event.key === "m") {
      const names = this.#told.moments.map((one) => one.name);
      this.#app.go("memory", { at: names[(names.indexOf(this.#moment().name) + 1) % names.length] });
      return true;
    }
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return false;
    const card = this.#cards.find((one) => one.name === this.#state.of) ?? this.#cards[0];
    card?.move(step);
    return true;
  }

  leave() {
    for (const card of this.#cards) card.leave();
  }

  #moment() {
    return this.#told.moments.find((one) => one.name === this.#state.at) ?? this.#told.moments[0];
  }

  #fill() {
    const colors = colorsOfParts(this.#told.categories, (kind, shade) => this.#app.color(kind, shade));
    const there = new Set(this.#moment().memories.flatMap((one) => one.segments.flatMap((segment) => segment.blocks.map((block) => block.category))));
    const swatch = (name) => element("li", {}, square(colors.get(name)), name);
    this.#legend.replaceChildren(...this.#told.categories.filter((name) => there.has(name)).map(swatch), element("li", {}, element("i.swatch.map-hole"), "hole"));
    for (const card of this.#cards) card.leave();
    this.#cards = this.#moment().memories.map((memory) => new MemoryCard(this.#app, memory, colors, (segment) => this.#chosen(memory, segment)));
    const omitted = this.#moment().omitted ? [element("p.soft.fine", {}, `${this.#moment().omitted.toLocaleString("en-US")} more segments are not in this file.`)] : [];
    this.#room.replaceChildren(...this.#cards.map((card) => card.body), ...omitted, this.#pins());
  }

  /** Lines by the unused memory beside their blocks. */
  #pins() {
    const rows = this.#moment().pins.map((pin) =>
      element(
        "tr",
        {},
        element("td.map-line", { title: pin.name }, clip(pin.name, 160)),
        element("td.soft", {}, pin.memory),
        element("td.soft", {}, pin.category),
        element("td.soft", {}, pin.layer),
        element("td.number", {}, amount(pin.bytes, "bytes")),
        element("td.number", {}, amount(pin.beside, "bytes")),
        element("td.number", {}, percent(pin.share, 1)),
      ),
    );
    if (!rows.length) return "";
    const heads = ["Allocated by", "Memory", "Category", "Layer", "Their bytes", "Unused beside them", "% of the unused"];
    const head = element("tr", {}, ...heads.map((text, at) => element(`th${at > 3 ? ".number" : ""}`, {}, text)));
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
    const says = "A segment goes back to the driver when no block is left in it, and a request needs one hole that is large enough. Lines that share a segment each have all of its unused memory here.";
    return element("section.card.map-card", {}, element("div.head", {}, element("h2", {}, "Who keeps partly used segments")), element("p.soft.fine", {}, says), element("div.map-list", {}, table));
  }

  #chosen(memory, segment) {
    this.#state = { ...this.#state, of: memory.name, segment: String(segment) };
    this.#app.replace(this.#state);
    for (const card of this.#cards) card.choose(card.name === memory.name ? segment : -1);
  }
}

function square(color) {
  const made = element("i.swatch");
  made.style.background = color;
  return made;
}
