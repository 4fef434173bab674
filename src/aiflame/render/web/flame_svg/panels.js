// The panels around the frames: header with tools and legend, the line of details, the tooltip, the help. HTML inside foreignObject.

import { CHANGES, entries, groupShares } from "../flame/groups.js";
import { factsOf, whereOf } from "../flame/words.js";
import { clip, percent } from "../text.js";
import { element, html } from "./chart.js";
import { KEYS } from "./keys.js";

/** Method of the app, label, title. */
const TOOLS = [
  ["undo", "Undo", "Back to the view before (u)"],
  ["reset", "Reset zoom", "Show everything (Esc)"],
  ["metric", "By base", "Widths by the base instead of the new profile (b)"],
  ["order", "By width", "Widest first instead of by name (o)"],
  ["flip", "Flip", "Callers at the top or at the bottom (i)"],
  ["theme", "Dark", "Dark or light (d)"],
  ["showHelp", "?", "Keys (h)"],
];

const PATIENT = 200_000; // nodes

export class Header {
  /**
   * @param {any} app
   * @param {import("../flame/model.js").Model} model with nothing hidden
   */
  constructor(app, model) {
    const { steps, title, facts } = app.file.head;
    this.app = app;
    this.steps = steps;
    this.large = model.count >= PATIENT;
    this.search = /** @type {HTMLInputElement} */ (html("input", {
      type: "text", class: "af-search", placeholder: "Search (regex)", "aria-label": "Search frames with a regular expression",
      spellcheck: "false", autocomplete: "off", size: 22,
      input: () => this.#typed(),
      keydown: (/** @type {KeyboardEvent} */ event) => this.#searchKey(event),
    }));
    this.matchCase = html("button", { type: "button", class: "af-button", title: "Match case (m)", click: () => app.matchCase() }, "Aa");
    /** @type {Record<string, any>} */
    this.buttons = {};
    const tools = html("div", { class: "af-tools" }, this.search, this.matchCase);
    for (const [name, label, title] of TOOLS) {
      if (name === "metric" && !model.differential) continue;
      this.buttons[name] = html("button", { type: "button", class: "af-button", title, click: () => app[name]() }, label);
      tools.append(this.buttons[name]);
    }
    this.legend = html("div", { class: "af-legend", role: "group", "aria-label": "Kinds of frames" });
    this.kinds = model.differential ? [] : entries(model, this.steps, groupShares(model, this.steps));
    const titles = html("div", { class: "af-titles" }, html("h1", { title }, title), html("p", { title: facts }, facts));
    this.body = html("div", { class: "af-header" }, html("div", { class: "af-top" }, titles, tools), this.legend);
  }

  /**
   * @param {import("./state.js").State} state
   * @param {import("../flame/model.js").Model} model
   * @param {boolean} dark
   * @param {boolean} canUndo
   */
  update(state, model, dark, canUndo) {
    if (document.activeElement !== this.search) this.search.value = state.search;
    const pressed = { order: state.byWidth, flip: state.flipped, theme: dark, metric: state.metric === 1 };
    for (const [name, on] of Object.entries(pressed)) this.buttons[name]?.setAttribute("aria-pressed", on);
    this.matchCase.setAttribute("aria-pressed", String(state.matchCase));
    this.buttons.undo.disabled = !canUndo;
    this.buttons.reset.disabled = state.zoom === 0;
    this.#describe(state, model);
  }

  /** The legend. A hidden kind stays in it: a click brings it back. */
  #describe(/** @type {any} */ state, /** @type {import("../flame/model.js").Model} */ model) {
    const shares = model.differential ? groupShares(model, this.steps) : null;
    const chips = (shares ? entries(model, this.steps, shares) : this.kinds).map((entry) => {
      const chip = this.#chip(entry);
      chip.setAttribute("aria-pressed", String(state.lit.includes(entry.group)));
      chip.classList.toggle("af-hidden", state.hidden.includes(entry.group));
      return chip;
    });
    const focused = /** @type {any} */ (document.activeElement)?.dataset?.group;
    this.legend.replaceChildren(...chips, ...(shares ? [this.#goneNote(model, shares)] : []));
    if (focused !== undefined) /** @type {any} */ (this.legend.querySelector(`[data-group="${focused}"]`))?.focus();
  }

  #chip(/** @type {import("../flame/groups.js").Entry} */ { group, key, color, share, title }) {
    const swatch = element("svg", { width: 12, height: 12, "aria-hidden": "true" });
    swatch.append(element("rect", { class: `s${color}`, width: 12, height: 12, rx: 3 }));
    return html(
      "button",
      { type: "button", class: "af-chip", title, "data-group": group, click: (/** @type {any} */ event) => this.app.toggleGroup(group, event.shiftKey) },
      swatch, html("span", {}, key), html("b", {}, share),
    );
  }

  #goneNote(/** @type {import("../flame/model.js").Model} */ { base }, /** @type {ReturnType<typeof groupShares>} */ { own, frames }) {
    const gone = CHANGES.indexOf("gone");
    const count = `${frames[gone].toLocaleString("en-US")} ${frames[gone] === 1 ? "frame" : "frames"}`;
    const note = frames[gone] ? `${percent(own[gone], base[0])} of the base is gone (${count}): “By base” shows it.` : "Nothing of the base is gone.";
    return html("span", { class: "af-note" }, note);
  }

  // In a large tree a search takes a moment: it waits until the typing pauses.
  #typed() {
    clearTimeout(this.timer);
    const search = () => this.app.search(this.search.value, false);
    if (this.large) this.timer = setTimeout(search, 250);
    else search();
  }

  #searchKey(/** @type {KeyboardEvent} */ event) {
    event.stopPropagation();
    if (event.key !== "Enter" && event.key !== "Escape") return;
    clearTimeout(this.timer);
    if (event.key === "Escape") this.search.value = "";
    this.app.search(this.search.value, true);
    if (event.key === "Escape") this.app.focusFrame();
  }
}

export class Details {
  constructor() {
    this.text = html("span", { class: "af-detail" });
    this.matched = html("span", { class: "af-matched", role: "status" });
    this.body = html("div", { class: "af-details" }, this.text, this.matched);
  }
}

export class Tooltip {
  constructor() {
    this.body = html("div", { class: "af-tooltip", role: "tooltip" });
    this.holder = element("foreignObject", { class: "af-float", width: 10, height: 10, visibility: "hidden" }, this.body);
  }

  /**
   * @param {import("./chart.js").Chart} chart
   * @param {number} node
   * @param {number} count of frames that the bar stands for
   * @param {number} x
   * @param {number} y
   * @param {{width: number, height: number}} size
   */
  show(chart, node, count, x, y, { width, height }) {
    const { model } = chart;
    const name = model.name(node);
    const full = model.full(node);
    const where = whereOf(model, node);
    const color = element("rect", { class: `s${chart.colors.number(model, node)}`, width: 10, height: 10, rx: 3 });
    const kind = html("div", { class: "af-kind" }, element("svg", { width: 10, height: 10 }, color), model.kindLabel(node));
    if (model.approximate(node)) kind.append(" · reached by scanning the stack");
    this.body.replaceChildren(html("strong", {}, clip(name, 300)), kind);
    if (full !== name) this.body.append(html("div", { class: "af-full" }, clip(full, 700)));
    if (where) this.body.append(html("div", { class: "af-full" }, clip(where, 300)));
    const facts = factsOf(chart, node).flatMap(([label, value]) => [html("dt", {}, label), html("dd", {}, value)]);
    this.body.append(html("dl", {}, ...facts));
    if (count > 1) this.body.append(html("div", { class: "af-soft" }, `and ${(count - 1).toLocaleString("en-US")} more too narrow to draw: zoom in`));
    this.holder.setAttribute("width", String(Math.min(460, width - 8)));
    const box = this.body.getBoundingClientRect();
    this.holder.setAttribute("height", String(Math.ceil(box.height) + 2));
    const left = x + 14 + box.width > width ? x - 10 - box.width : x + 14;
    const top = y + 16 + box.height > height ? y - 10 - box.height : y + 16;
    this.holder.setAttribute("x", String(Math.max(4, left)));
    this.holder.setAttribute("y", String(Math.max(4, top)));
    this.holder.setAttribute("visibility", "visible");
  }

  hide() {
    this.holder.setAttribute("visibility", "hidden");
  }
}

export class Help {
  constructor(/** @type {any} */ app) {
    const rows = KEYS.map(([keys, what]) => html("div", { class: "af-key" }, html("kbd", {}, keys), html("span", {}, what)));
    this.button = html("button", { type: "button", class: "af-button", click: () => app.showHelp() }, "Close");
    this.body = html("div", { class: "af-help", role: "dialog", "aria-label": "Keys" }, html("h2", {}, "Keys"), ...rows, this.button);
    this.holder = element("foreignObject", { width: 10, height: 10, visibility: "hidden" }, this.body);
  }

  get open() {
    return this.holder.getAttribute("visibility") === "visible";
  }

  show(/** @type {boolean} */ on, /** @type {number} */ width, /** @type {number} */ height) {
    this.holder.setAttribute("visibility", on ? "visible" : "hidden");
    if (!on) return;
    const wide = Math.min(520, width - 20);
    this.holder.setAttribute("width", String(wide));
    const tall = this.body.getBoundingClientRect().height;
    const given = { height: tall, x: (width - wide) / 2, y: Math.max(10, (height - tall) / 3) };
    for (const [name, value] of Object.entries(given)) this.holder.setAttribute(name, String(value));
    this.button.focus();
  }
}
