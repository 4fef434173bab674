// FlameScope: when something happened, as a heat map of seconds or of steps; a range of it opens as a flame graph.

import { amount, shortLabel } from "../../../text.js";
import { element } from "../ui/dom.js";
import { Choice, button } from "../ui/elements.js";
import { between } from "../ui/time_text.js";
import { chosenOf } from "./choices.js";
import { scale } from "./colors.js";
import { listen } from "./gestures.js";
import { StepGrid, TimeGrid } from "./grid.js";
import { Legend } from "./legend.js";
import { LEFT, Picture, TOP } from "./picture.js";
import { SelectionBar } from "./selection_bar.js";
import { hoverText, howKnown, legendText, named } from "./words.js";

class Scope {
  /** @type {Promise<any> | undefined} */
  asked;
  /** @type {any} a TimeGrid or a StepGrid, as `by` says */
  grid;

  constructor(app) {
    this.app = app;
    this.body = element("section.sc");
    this.choices = {
      metric: new Choice("Metric", (metric) => this.#set({ metric, range: "", steps: "" })),
      by: new Choice("By", (by) => this.#set({ by, at: "", column: "", rows: "" })),
      column: new Choice("Column", (column) => this.#set({ column, rows: "", at: "" })),
      process: new Choice("Process", (process) => this.#set({ process, at: "", steps: "" })),
      rows: new Choice("Rows", (rows) => this.#set({ rows })),
      scale: new Choice("Colours", (chosen) => this.#set({ scale: chosen })),
    };
    this.legend = new Legend();
    this.window = element("span.sc-window");
    const zoom = [button("−", () => this.#zoom(2), "Fewer details: more columns (−)"), button("+", () => this.#zoom(0.5), "Zoom into the columns (+)")];
    this.body.append(
      element("div.sc-bar", {}, ...Object.values(this.choices).map((one) => one.body), element("span.sc-zoom", {}, ...zoom, this.window), this.legend.body),
    );
    this.canvas = element("canvas.sc-canvas", { tabIndex: 0 });
    this.canvas.setAttribute("role", "application");
    this.tip = element("div.sc-tip", { hidden: true });
    this.selectionBar = new SelectionBar(app, { open: () => this.#open(), compare: () => this.#open({ against: "rest" }), timeline: () => this.#openTimeline(), clear: () => this.#select(null) });
    this.note = element("p.sc-note");
    this.body.append(this.note, element("div.sc-picture", {}, this.canvas, this.tip), this.selectionBar.body);
    this.picture = new Picture(this.canvas);
    this.sizes = new ResizeObserver(() => this.#change());
    this.anchor = null; // the cell at which a selection begins
    listen(this.canvas, {
      cellAt: (x, y, clamp) => (this.grid ? this.picture.cellAt(x, y, this.grid, clamp) : null),
      hover: (cell, x, y) => this.#hover(cell, x, y),
      drag: (from, to, done) => this.#drag(from, to, done),
      click: (cell) => this.#click(cell),
      zoom: (factor, x) => this.#zoom(factor, x),
      pan: (columns) => this.#pan(columns),
    });
  }

  async show(state) {
    this.sizes.observe(this.canvas);
    this.state = { ...state };
    this.asked ??= this.app.data.ask("scope.about", { blocks: this.app.blocks });
    this.about = await this.asked;
    await this.#load();
  }

  leave() {
    this.sizes.disconnect();
  }

  #set(changed) {
    this.state = { ...this.state, ...changed };
    this.app.replace(this.state);
    return this.#load();
  }

  /** All that follows from the address. */
  async #load() {
    const state = this.state;
    const chosen = chosenOf(this.about, state);
    this.body.classList.toggle("sc-empty", !chosen);
    if (!chosen) return this.#none();
    const { metric, by, steps, column, rows } = chosen;
    for (const [name, offered] of Object.entries(chosen.offers)) this.choices[name].offer(...offered);
    const values = await this.#values(metric, by);
    if (this.state !== state) return undefined;
    this.metric = metric;
    this.by = by;
    const { bins } = metric.domain;
    this.grid = by === "time" ? new TimeGrid(bins, values, column, rows) : new StepGrid(steps, metric.domain, values, rows);
    this.note.textContent = howKnown(metric, by, steps);
    this.most = this.grid.values.reduce((most, _, index) => Math.max(most, this.grid.shade(index)), 0);
    this.body.classList.toggle("sc-untimed", !this.most);
    if (!this.most) return this.#untimed(metric);
    this.at = this.#windowOf(between(state.at));
    this.selection = this.#selectionOf(state);
    this.legend.show(this.most, legendText(this.metric, by), this.logarithmic(), this.app.theme());
    this.canvas.setAttribute("aria-label", this.#label());
    this.#tell(false);
    this.#change();
    return undefined;
  }

  #none() {
    this.grid = null;
    this.selectionBar.say("Nothing in this report says when it ran.");
  }

  /** An imported file may have values without saying when they were taken. */
  #untimed(metric) {
    this.grid = null;
    this.note.textContent = "";
    this.selectionBar.say(`The profile does not say when its ${shortLabel(metric)} was: the flame graph has all of it.`);
  }

  async #values({ name, domain }, by) {
    const key = `${by} ${domain.domain} ${name}`;
    if (this.known?.key !== key) {
      this.known = { key, values: await this.app.data.ask(by === "time" ? "scope.bins" : "scope.slots", { domain: domain.domain, metric: name }) };
    }
    return this.known.values;
  }

  logarithmic() {
    return this.state.scale === "log";
  }

  #label() {
    const what = this.by === "time" ? `${this.grid.columns} columns of ${amount(this.grid.column, "ns")}` : `${this.grid.columns} steps`;
    return `Heat map of ${shortLabel(this.metric)}, ${what}, ${this.grid.rows} rows. Arrow keys move, with Shift they select, Enter opens the flame graph.`;
  }

  #windowOf(wanted) {
    const [from, to] = wanted ?? [0, this.grid.columns];
    const low = Math.max(0, Math.min(from, this.grid.columns - 1));
    return [low, Math.max(low + 1, Math.min(to, this.grid.columns))];
  }

  /** First and last cell that the address names. */
  #selectionOf({ range, steps }) {
    if (this.by === "time") return between(range) ? this.grid.cellsOf(between(range)) : null;
    const wanted = between(steps);
    const columns = wanted ? [...this.grid.steps.keys()].filter((at) => this.grid.steps[at].number >= wanted[0] && this.grid.steps[at].number <= wanted[1]) : [];
    return columns.length ? [columns[0] * this.grid.rows, (columns.at(-1) + 1) * this.grid.rows - 1] : null;
  }

  #change() {
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = undefined;
      this.#draw();
    });
  }

  #draw() {
    if (!this.grid || this.body.hidden || this.canvas.clientWidth === 0) return;
    this.picture.resize(this.grid, this.at);
    const theme = this.app.theme();
    const found = getComputedStyle(this.body);
    const style = Object.fromEntries(["paper", "ink", "soft", "line", "field", "accent"].map((name) => [name, found.getPropertyValue(`--${name}`).trim()]));
    const { most } = this;
    const logarithmic = this.logarithmic();
    const tone = (value) => Math.min(255, Math.round(255 * named.share(value, most, logarithmic)));
    const aboveLabel = this.by === "step" ? "length of each step" : `${shortLabel(this.metric)} in each column`;
    const unit = this.by === "step" ? "ns" : this.metric.unit;
    const { grid, selection, cursor, hovered } = this;
    this.picture.draw({ grid, tone, colors: scale(theme), style, selection, cursor, hovered, unit, aboveLabel });
    this.#sayWindow();
    const { shown, cellWidth, cellHeight, plotHeight } = this.picture;
    this.canvas.dataset.drawn = JSON.stringify({ by: this.by, shown, rows: this.grid.rows, cellWidth, cellHeight, plotHeight, left: LEFT, top: TOP });
  }

  #sayWindow() {
    const parts = [];
    if (this.at[0] > 0 || this.at[1] < this.grid.columns) parts.push(`${this.at[1] - this.at[0]} of ${this.grid.columns} columns`);
    if (this.picture.together > 1) parts.push(`each the mean of ${this.picture.together}`);
    this.window.textContent = parts.join(", ");
  }

  #cellIndex({ column, row }) {
    return column * this.grid.rows + row;
  }

  /** Cells from one to the other; of steps all cells, of columns that are drawn as one all that these hold. */
  #between(one, other) {
    const last = this.grid.values.length - 1;
    const { rows } = this.grid;
    const [first, second] = this.#cellIndex(one) <= this.#cellIndex(other) ? [one, other] : [other, one];
    const end = Math.min(second.column + this.picture.together - 1, this.grid.columns - 1);
    if (this.by === "step") return [first.column * rows, Math.min((end + 1) * rows - 1, last)];
    return [this.#cellIndex(first), Math.min(this.#cellIndex({ column: end, row: second.row }), last)];
  }

  #drag(from, to, done) {
    this.anchor = null;
    this.#select(this.#between(from, to), done);
  }

  /** The first click begins a selection, the second one ends it. */
  #click(cell) {
    this.canvas.focus({ preventScroll: true });
    if (!cell) {
      this.#select(null);
      return;
    }
    this.cursor = cell;
    if (this.anchor) {
      const { anchor } = this;
      this.anchor = null;
      this.#select(this.#between(anchor, cell));
    } else {
      this.#select(this.#between(cell, cell));
      this.anchor = cell;
    }
  }

  #select(selection, done = true) {
    if (!selection) this.anchor = null;
    this.selection = selection;
    if (done) {
      const { range, steps } = this.#filter();
      this.state = { ...this.state, range, steps };
      this.app.replace(this.state);
      this.#tell(true);
    }
    this.#change();
  }

  /** The flame graph's address for the selection. */
  #filter() {
    if (!this.selection) return { range: "", steps: "" };
    const [first, last] = this.selection;
    if (this.by === "time") return { range: this.grid.binsOf(first, last).join("-"), steps: "" };
    const [from, to] = [first, last].map((index) => this.grid.steps[Math.floor(index / this.grid.rows)].number);
    return { range: "", steps: `${from}-${to}` };
  }

  #tell(aloud) {
    if (!this.selection) this.selectionBar.nothing(this.by);
    else this.selectionBar.selected({ grid: this.grid, metric: this.metric, selection: this.selection, given: this.#given(this.selection), aloud });
  }

  /** The question to the worker about a selection. */
  #given([first, last]) {
    const given = { domain: this.metric.domain.domain, metric: this.metric.name, most: 5 };
    if (this.by === "time") return { ...given, range: this.grid.binsOf(first, last) };
    const column = (index) => Math.floor(index / this.grid.rows);
    return { ...given, steps: [this.grid.steps[column(first)].row, this.grid.steps[column(last)].row] };
  }

  #open(more = {}) {
    if (this.selection) this.app.go("flame", { metric: this.metric.name, ...this.#filter(), ...more });
  }

  #openTimeline() {
    this.selectionBar.openTimeline();
  }

  async #hover(cell, x, y) {
    if (cell?.column === this.hovered?.column && cell?.row === this.hovered?.row && cell) {
      this.#placeTip(x, y);
      return;
    }
    this.hovered = cell;
    this.tip.hidden = !cell;
    this.#change();
    if (!cell) return;
    const value = this.picture.value(this.grid, cell.column, cell.row);
    const words = (part) => hoverText({ grid: this.grid, metric: this.metric, cell, value, together: this.picture.together, part });
    this.tip.replaceChildren(...words(null));
    this.#placeTip(x, y);
    if (this.picture.together > 1 || value === 0) return;
    const index = this.#cellIndex(cell);
    const given = { ...this.#given([index, index]), most: 1, slots: this.by === "step" ? this.grid.slotsOf(cell.row) : undefined };
    const part = await this.app.data.ask("scope.part", given);
    if (this.hovered !== cell) return;
    this.tip.replaceChildren(...words(part));
    this.#placeTip(x, y);
  }

  #placeTip(x, y) {
    this.tip.style.left = `${Math.max(4, Math.min(x + 16, this.canvas.clientWidth - this.tip.offsetWidth - 6))}px`;
    const below = y + 16 + this.tip.offsetHeight < this.canvas.clientHeight;
    this.tip.style.top = `${below ? y + 16 : Math.max(2, y - this.tip.offsetHeight - 12)}px`;
  }

  #zoom(factor, x) {
    if (!this.grid) return;
    const [from, to] = this.at;
    const length = Math.max(4, Math.min(this.grid.columns, Math.round((to - from) * factor)));
    const fixed = x === undefined ? (this.cursor?.column ?? (from + to) / 2) : Math.max(from, Math.min(to, this.picture.columnAt(x)));
    const start = Math.round(fixed - ((fixed - from) / (to - from)) * length);
    this.#setWindow(start, length);
  }

  #pan(columns) {
    if (this.grid) this.#setWindow(this.at[0] + columns, this.at[1] - this.at[0]);
  }

  #setWindow(start, length) {
    const from = Math.max(0, Math.min(start, this.grid.columns - length));
    this.at = this.#windowOf([from, from + length]);
    const whole = this.at[0] === 0 && this.at[1] === this.grid.columns;
    this.state = { ...this.state, at: whole ? "" : this.at.join("-") };
    this.app.replace(this.state);
    this.#change();
  }

  /** Whether it was one of ours. */
  key(event) {
    if (!this.grid) return false;
    const free = event.target === this.canvas || event.target === document.body;
    const moves = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    const act = {
      "+": () => this.#zoom(0.5),
      "=": () => this.#zoom(0.5),
      "-": () => this.#zoom(2),
      0: () => this.#setWindow(0, this.grid.columns),
      Escape: () => this.#select(null),
      PageUp: () => this.#pan(-Math.ceil((this.at[1] - this.at[0]) / 2)),
      PageDown: () => this.#pan(Math.ceil((this.at[1] - this.at[0]) / 2)),
    }[event.key];
    if (act) act();
    else if (free && event.key === "Enter" && this.selection) this.#open(event.shiftKey ? { against: "rest" } : {});
    else if (free && moves[event.key]) this.#move(moves[event.key], event.shiftKey);
    else return false;
    return true;
  }

  #move([across, up], selects) {
    const { grid, picture } = this;
    const from = this.cursor ?? { column: this.at[0], row: this.by === "step" ? grid.rows - 1 : 0 };
    let index = this.cursor ? this.#cellIndex(from) + up + across * grid.rows * picture.together : this.#cellIndex(from);
    index = Math.max(0, Math.min(grid.values.length - 1, index));
    if (selects) this.anchor ??= from;
    else this.anchor = null;
    this.cursor = { column: Math.floor(index / grid.rows), row: index % grid.rows };
    this.cursor.column -= (this.cursor.column - this.at[0]) % picture.together;
    if (this.cursor.column < this.at[0] || this.cursor.column >= this.at[1]) this.#pan(this.cursor.column - (across || up > 0 ? this.at[1] - 1 : this.at[0]));
    if (selects) {
      const { anchor } = this;
      this.#select(this.#between(anchor, this.cursor));
      return;
    }
    this.app.say(hoverText({ grid, metric: this.metric, cell: this.cursor, value: picture.value(grid, this.cursor.column, this.cursor.row), together: picture.together, part: null }).map((line) => line.textContent).join(", "));
    this.#change();
  }
}

export const view = {
  name: "scope",
  title: "FlameScope",
  key: "3",
  keys: [
    ["← → ↑ ↓", "from cell to cell"],
    ["Shift ← …", "select"],
    ["Enter", "the flame graph of the selection; with Shift: compared with the rest"],
    ["+ −", "zoom into columns and out"],
    ["PgUp PgDn", "earlier, later columns"],
    ["0", "all columns"],
    ["Esc", "let go of the selection"],
  ],
  create(app) {
    const made = new Scope(app);
    return { body: made.body, show: (state) => made.show(state), leave: () => made.leave(), key: (event) => made.key(event) };
  },
};
