// What surrounds the frames: header with tools and legend, the line of details, the tooltip, the help. HTML inside foreignObject.

import { amount, clip, percent } from "../text.js";
import { element, html } from "./chart.js";

/** @type {[string, string, string, boolean][]} */
const TOOLS = [
  // name, label, what it does, is it a switch
  ["undo", "Undo", "Back to the view before (u)", false],
  ["reset", "Reset zoom", "Show everything (Esc)", false],
  ["metric", "By base", "Widths by the base instead of the new profile (b)", true],
  ["order", "By width", "Widest first instead of by name (o)", true],
  ["flip", "Flip", "Callers at the top or at the bottom (i)", true],
  ["theme", "Dark", "Dark or light (d)", true],
  ["help", "?", "Keys (h)", false],
];

const HELP = [
  ["click, Enter", "zoom to a frame"],
  ["Esc, 0", "show everything again"],
  ["u, Backspace", "undo: the view before"],
  ["← → ↑ ↓", "walk through the frames; Home: the root"],
  ["/, Ctrl F", "search with a regular expression; module:, file: and kind: look there"],
  ["n, N", "next, previous match"],
  ["m", "match case, or not"],
  ["c, C", "copy the frame's name, its whole stack"],
  ["o", "order by width, or by name"],
  ["i", "flip: callers at the top or at the bottom"],
  ["b", "differential: widths by the base, or by the new profile"],
  ["d", "dark or light"],
  ["legend", "click: highlight a kind; Shift-click: hide it"],
  ["h, ?", "this help"],
];

const PATIENT = 200_000; // nodes

export class Header {
  constructor(model, act) {
    this.model = model;
    this.search = html("input", {
      type: "text", class: "af-search", placeholder: "Search (regex)", "aria-label": "Search frames with a regular expression",
      spellcheck: "false", autocomplete: "off", size: 22,
      input: () => this.#typed(act),
      keydown: (event) => this.#searchKey(event, act),
    });
    this.matchCase = html("button", { type: "button", class: "af-button", title: "Match case (m)", click: act.matchCase }, "Aa");
    this.buttons = {};
    const tools = html("div", { class: "af-tools" }, this.search, this.matchCase);
    for (const [name, label, title] of TOOLS) {
      if (name === "metric" && !model.differential) continue;
      this.buttons[name] = html("button", { type: "button", class: "af-button", title, click: act[name] }, label);
      tools.append(this.buttons[name]);
    }
    this.legend = html("div", { class: "af-legend", role: "group", "aria-label": "Kinds of frames" });
    this.chips = new Map(model.groups.map((group) => [group.id, this.#chip(group, act)]));
    this.legend.append(...this.chips.values());
    if (model.differential) this.legend.append(this.#goneNote());
    const { title, facts } = model.head;
    const titles = html("div", { class: "af-titles" }, html("h1", { title }, title), html("p", { title: facts }, facts));
    this.body = html("div", { class: "af-header" }, html("div", { class: "af-top" }, titles, tools), this.legend);
  }

  update(state, dark, canUndo) {
    if (document.activeElement !== this.search) this.search.value = state.search;
    const pressed = { order: state.byWidth, flip: state.flipped, theme: dark, metric: state.metric === 1 };
    for (const [name, on] of Object.entries(pressed)) this.buttons[name]?.setAttribute("aria-pressed", on);
    this.matchCase.setAttribute("aria-pressed", state.matchCase);
    this.buttons.undo.disabled = !canUndo;
    this.buttons.reset.disabled = state.zoom === 0;
    for (const [id, chip] of this.chips) {
      const group = this.model.groups.find((one) => one.id === id);
      // What is gone has its share of the base alone.
      const metric = this.model.differential && id === 0 ? 1 : state.metric;
      const part = (this.model.differential ? group.own : group.inclusive)[metric];
      chip.lastChild.textContent = percent(part, this.model.totals[metric][0]);
      chip.setAttribute("aria-pressed", state.lit.includes(id));
      chip.classList.toggle("af-hidden", state.hidden.includes(id));
    }
  }

  #chip(group, act) {
    const title = this.model.differential
      ? "Share of the widths in frames that changed so. Click: highlight"
      : `${percent(group.inclusive[0], this.model.totals[0][0])} in or below ${group.label} frames, ` +
        `${percent(group.own[0], this.model.totals[0][0])} in themselves. Click: highlight. Shift-click: hide`;
    const swatch = element("svg", { width: 12, height: 12, "aria-hidden": "true" });
    swatch.append(element("rect", { class: `s${group.css}`, width: 12, height: 12, rx: 3 }));
    return html(
      "button",
      { type: "button", class: "af-chip", title, "data-group": group.id, click: (event) => act.group(group.id, event.shiftKey) },
      swatch, html("span", {}, group.label), html("b", {}),
    );
  }

  #goneNote() {
    const [updated, base] = this.model.totals;
    let gone = 0;
    let frames = 0;
    for (let node = 0; node < this.model.count; node++) {
      if (updated[node] > 0 || base[node] === 0) continue;
      frames++;
      gone += this.model.own[1][node];
    }
    const note = frames
      ? `${percent(gone, base[0])} of the base is gone (${frames.toLocaleString("en-US")} ${frames === 1 ? "frame" : "frames"}): “By base” shows it.`
      : "Nothing of the base is gone.";
    return html("span", { class: "af-note" }, note);
  }

  // In a large tree a search takes a moment: it waits until the typing pauses.
  #typed(act) {
    clearTimeout(this.timer);
    if (this.model.count < PATIENT) act.search(this.search.value, false);
    else this.timer = setTimeout(() => act.search(this.search.value, false), 250);
  }

  #searchKey(event, act) {
    event.stopPropagation();
    if (event.key === "Enter" || event.key === "Escape") clearTimeout(this.timer);
    if (event.key === "Enter") act.search(this.search.value, true);
    if (event.key === "Escape") {
      this.search.value = "";
      act.search("", true);
      act.leaveSearch();
    }
  }
}

export class Details {
  constructor() {
    this.text = html("span", { class: "af-detail" });
    this.matched = html("span", { class: "af-matched", role: "status" });
    this.body = html("div", { class: "af-details" }, this.text, this.matched);
  }
}

// The words for one frame.
export function facts(model, node, zoom) {
  const { unit } = model.head;
  const [updated, base] = model.totals;
  const lines = [`${amount(model.total[node], unit)} · ${percent(model.total[node], model.whole)}`];
  if (zoom > 0 && node >= zoom) lines[0] += ` (${percent(model.total[node], model.total[zoom])} of the zoomed frame)`;
  const own = model.own[model.metric][node];
  lines.push(`itself ${amount(own, unit)} · ${percent(own, model.whole)}`);
  if (model.differential) lines.push(`${amount(base[node], unit)} → ${amount(updated[node], unit)} · ${change(base[node], updated[node])}`);
  return lines;
}

export function change(base, updated) {
  if (base === 0) return updated === 0 ? "no change" : "new";
  if (updated === 0) return "gone";
  const part = (100 * (updated - base)) / base;
  return `${part > 0 ? "+" : part < 0 ? "−" : "±"}${Math.abs(part).toFixed(1)}%`;
}

export class Tooltip {
  constructor(model) {
    this.model = model;
    this.body = html("div", { class: "af-tooltip", role: "tooltip" });
    this.holder = element("foreignObject", { class: "af-float", width: 10, height: 10, visibility: "hidden" }, this.body);
  }

  show(node, count, zoom, x, y, width, height) {
    const { model } = this;
    const name = model.name(node);
    const full = model.fullName(node);
    const where = [model.module(node), model.place(node)].filter(Boolean).join(" · ");
    const kind = html("div", { class: "af-kind" }, element("svg", { width: 10, height: 10 }, element("rect", { class: `s${model.css[node]}`, width: 10, height: 10, rx: 3 })), model.kindLabel(node));
    if (model.frames.approximate[model.frame[node]]) kind.append(" · reached by scanning the stack");
    this.body.replaceChildren(html("strong", {}, clip(name, 300)), kind);
    if (full !== name) this.body.append(html("div", { class: "af-full" }, clip(full, 700)));
    if (where) this.body.append(html("div", { class: "af-full" }, clip(where, 300)));
    for (const line of facts(model, node, zoom)) this.body.append(html("div", {}, line));
    if (count > 1) this.body.append(html("div", { class: "af-soft" }, `and ${(count - 1).toLocaleString("en-US")} more too narrow to draw: zoom in`));
    this.holder.setAttribute("width", Math.min(460, width - 8));
    const box = this.body.getBoundingClientRect();
    this.holder.setAttribute("height", Math.ceil(box.height) + 2);
    const left = x + 14 + box.width > width ? x - 10 - box.width : x + 14;
    const top = y + 16 + box.height > height ? y - 10 - box.height : y + 16;
    this.holder.setAttribute("x", Math.max(4, left));
    this.holder.setAttribute("y", Math.max(4, top));
    this.holder.setAttribute("visibility", "visible");
  }

  hide() {
    this.holder.setAttribute("visibility", "hidden");
  }
}

export class Help {
  constructor(close) {
    const rows = HELP.map(([keys, what]) => html("div", { class: "af-key" }, html("kbd", {}, keys), html("span", {}, what)));
    this.button = html("button", { type: "button", class: "af-button", click: close }, "Close");
    this.body = html("div", { class: "af-help", role: "dialog", "aria-label": "Keys" }, html("h2", {}, "Keys"), ...rows, this.button);
    this.holder = element("foreignObject", { width: 10, height: 10, visibility: "hidden" }, this.body);
  }

  get open() {
    return this.holder.getAttribute("visibility") === "visible";
  }

  show(on, width, height) {
    this.holder.setAttribute("visibility", on ? "visible" : "hidden");
    if (!on) return;
    const wide = Math.min(520, width - 20);
    this.holder.setAttribute("width", wide);
    const tall = this.body.getBoundingClientRect().height;
    this.holder.setAttribute("height", tall);
    this.holder.setAttribute("x", (width - wide) / 2);
    this.holder.setAttribute("y", Math.max(10, (height - tall) / 3));
    this.button.focus();
  }
}
