// The timeline: steps, phases, layers, regions, waits, and the work on each stream, from the whole run down to single kernels.

import { element } from "../ui/dom.js";
import { button } from "../ui/elements.js";
import { between, moment } from "../ui/time_text.js";
import { Choice } from "./choice.js";
import { Closer } from "./closer.js";
import { Details } from "./details.js";
import { listen } from "./gestures.js";
import { layout } from "./layout.js";
import { legendOf } from "./legend.js";
import { Picture, RULER } from "./picture.js";
import { Pointer } from "./pointer.js";
import { colorsOf } from "./stack.js";
import { around, limited, zoomed } from "./stretch.js";

const WRITING = 250; // ms until the address holds the new state
const AROUND = 0.5; // of the picture's width is read on either side of it

class Timeline {
  /** @type {Promise<any> | undefined} */
  asked;

  constructor(app) {
    this.app = app;
    this.body = element("section.tl");
    this.where = element("span.tl-where");
    this.hands = "Wheel zooms, drag pans, double click fits a step; drag on the ruler, or with Shift, selects time";
    this.hint = element("span.tl-hint", {}, this.hands);
    this.closer = new Closer(app.data, { close: (is) => this.#close(is), read: (about) => this.#read(about) });
    this.legend = element("ul.tl-legend", { "aria-label": "Time of sampled threads", hidden: true });
    this.usual = button("Usual step", () => this.#fit(this.about.usualStep.begin, this.about.usualStep.end), "The step of median length");
    this.body.append(
      element(
        "div.tl-bar",
        {},
        button("Whole run", () => this.#fit(0, this.about.length), "Show everything (0)"),
        this.usual,
        button("−", () => this.#zoom(1.6), "Zoom out (s)"),
        button("+", () => this.#zoom(1 / 1.6), "Zoom in (w)"),
        this.where,
        this.legend,
        this.closer.note,
        this.hint,
      ),
    );
    this.canvas = element("canvas.tl-canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", "Timeline. W and S zoom, A and D pan, arrow keys go from slice to slice, Enter fits it, Escape clears.");
    this.picture = new Picture(this.canvas);
    this.pointer = new Pointer(app, this.canvas, this.picture, this, () => this.#change());
    this.details = new Details(app, {
      choose: (row) => this.choice.choose(row),
      fit: (begin, end) => this.#fit(begin, end),
      clear: () => this.choice.clear(),
    });
    this.choice = new Choice(app.data, this.details, this, { reveal: (slice) => this.#reveal(slice), changed: () => this.#change() });
    this.body.append(element("div.tl-picture", {}, this.canvas, this.pointer.tip), this.details.body);
    this.turned = new Set();
    this.closely = false;
    this.laid = 0; // changes with the rows
    this.top = 0;
    this.sizes = new ResizeObserver(() => this.#change());
    listen(this.canvas, {
      pan: (dx, dy) => this.#pan(dx, dy),
      zoom: (factor, x) => this.#zoom(factor, x),
      scroll: (dy) => this.#pan(0, -dy),
      scrolls: (x) => x < this.picture.gutter,
      marks: (x, y, event) => x >= this.picture.gutter && (y < RULER || event.shiftKey),
      mark: (from, to, done) => this.#mark(from, to, done),
      click: (x, y) => this.#click(x, y),
      fit: (x, y) => this.#fitStep(x, y),
      hover: (x, y) => this.pointer.move(x, y),
      leave: () => this.pointer.leave(),
    });
  }

  async show(state) {
    this.sizes.observe(this.canvas);
    this.state = state;
    if (!this.app.blocks.includes("timeline")) {
      this.#none("This report has no timeline.");
      return;
    }
    this.asked ??= this.app.data.ask("timeline.about");
    const about = await this.asked;
    if (this.state !== state) return;
    if (about.slices === 0 && !about.counters.length) {
      this.#none("The profile does not say when anything ran: there is no timeline.");
      return;
    }
    this.about = about;
    const clock = between(state.clock)?.map((moment) => moment - this.about.origin); // how other views name a time
    const [begin, end] = between(state.time) ?? clock ?? [0, this.about.length];
    this.view = limited(begin, end, this.about.length);
    this.turned = new Set((state.turned ?? "").split(".").filter(Boolean).map(Number));
    this.top = Number(state.top ?? 0) || 0;
    this.#say();
    this.plan = layout(this.about, this.turned, this.closely);
    const mark = between(state.mark);
    await this.choice.read(state.slice, mark && { begin: mark[0], end: mark[1] });
    this.#change();
  }

  leave() {
    this.sizes.disconnect();
    this.closer.stop();
  }

  /** Lanes of stretches that were read closer come and go with these. */
  #close(is) {
    if (this.closely === is) return;
    this.closely = is;
    this.#lay();
  }

  async #read(about) {
    this.about = about;
    this.#lay();
    await this.choice.findLinked();
    this.#change();
  }

  /** The row under the pointer stays in its place, or else the first row in sight. */
  #lay() {
    const pointed = this.pointer.at ? this.pointer.rowAt(this.pointer.at.y) : undefined;
    const at = pointed ?? this.plan.rows.find((row) => row.lane !== undefined && row.y >= this.top);
    this.plan = layout(this.about, this.turned, this.closely);
    const now = at && this.plan.rows.find((row) => (at.lane === undefined ? row.fold === at.fold && row.title : row.lane === at.lane));
    if (now) this.top = Math.max(0, this.top + now.y - at.y);
    this.laid++;
    this.#change();
  }

  #none(why) {
    this.body.replaceChildren(element("p.tl-none", {}, why));
  }

  /** Says what is merged and left out; where everything is shown, which gestures there are. */
  #say() {
    this.hint.textContent = this.#coarse() || this.hands;
    this.usual.hidden = !this.about.usualStep;
  }

  #coarse() {
    const { merged, leftOut } = this.about;
    const closer = this.pieces?.closer;
    if (closer && closer.begin <= this.view.begin && closer.end >= this.view.end) return "";
    const notes = [];
    const shorter = [[merged?.detail_ns, "layers and functions"], [merged?.bin_ns, merged?.detail_ns ? "others" : "those"]].filter(([ns]) => ns);
    const limits = shorter.map(([ns, what]) => `${what} shorter than ${moment(ns, ns / 100)}`);
    if (merged) notes.push(`${merged.slices.toLocaleString("en-US")} slices: ${limits.join(" and ")} are merged with their neighbours`);
    if (leftOut.length) notes.push(`without ${leftOut.join(" and ")}`);
    return notes.join("; ");
  }

  /** Draws the changed view in the next frame, and writes the address a moment later. */
  #change() {
    if (!this.view) return;
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = undefined;
      this.#draw();
    });
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.#write(), WRITING);
    this.body.setAttribute("aria-busy", "true");
  }

  #write() {
    this.body.removeAttribute("aria-busy");
    if (this.body.hidden) return;
    const whole = this.view.begin === 0 && this.view.end === this.about.length;
    const { range } = this.choice;
    this.state = {
      time: whole ? "" : `${Math.round(this.view.begin)}-${Math.round(this.view.end)}`,
      mark: range ? `${Math.round(range.begin)}-${Math.round(range.end)}` : "",
      slice: this.choice.link,
      turned: [...this.turned].sort((one, other) => one - other).join("."),
      top: this.top ? String(Math.round(this.top)) : "",
    };
    this.app.replace(this.state);
  }

  #draw() {
    if (this.body.hidden) return;
    this.picture.resize();
    if (this.revealed) this.#scrollTo(this.revealed);
    this.revealed = null;
    this.top = Math.max(0, Math.min(this.top, this.plan.height - (this.picture.height - RULER)));
    this.#ask();
    this.closer.look(this.view, this.about);
    this.#say();
    const theme = this.app.theme();
    if (this.theme !== theme) this.#readStyle(theme);
    this.where.textContent = `${moment(this.view.end - this.view.begin, (this.view.end - this.view.begin) / 100)} of ${moment(this.about.length, this.about.length / 1000)}`;
    this.picture.draw({
      about: this.about,
      rows: this.plan.rows,
      top: this.top,
      view: this.view,
      pieces: this.pieces,
      color: (kind, name) => this.colors[kind][this.about.shades[name]],
      partColors: this.partColors,
      theme,
      style: this.style,
      chosen: this.choice.slice,
      hovered: this.pointer.hovered,
      range: this.choice.range,
    });
    if (this.pieces) this.#noteDrawn();
  }

  /** Writes the drawn view into the page, for scripts and tests. */
  #noteDrawn() {
    const { begin, end } = this.view;
    this.plan.told ??= this.plan.rows.map(({ title, label, y, height }) => ({ text: title ?? label, y: y + height / 2 + RULER }));
    const { gutter } = this.picture;
    const { closer, left } = this.pieces;
    this.canvas.dataset.drawn = JSON.stringify({ begin, end, top: this.top, pieces: left.length, gutter, rows: this.plan.told, closer });
  }

  #readStyle(theme) {
    this.theme = theme;
    const found = getComputedStyle(this.body);
    this.style = Object.fromEntries(
      ["paper", "ink", "soft", "line", "field", "raised", "accent"].map((name) => [name, found.getPropertyValue(`--${name}`).trim()]),
    );
    this.colors = {};
    for (const [kind, { color }] of Object.entries(this.about.kinds)) {
      this.colors[kind] = [0, 1, 2, 3, 4, 5].map((shade) => this.app.color(color, shade));
    }
    this.partColors = colorsOf(this.about.counters, (kind, shade) => this.app.color(kind, shade));
    this.legend.replaceChildren(...legendOf(this.about, this.colors));
    this.legend.hidden = !this.legend.childElementCount;
  }

  /** The last picture stays, moved and stretched, until the worker has found the next. */
  async #ask() {
    const { begin, end } = this.view;
    const pixel = this.picture.pixel(this.view);
    const lanes = this.plan.rows.filter((row) => row.lane !== undefined && this.#isNear(row)).map((row) => row.lane);
    const counters = this.plan.rows.filter((row) => row.counter !== undefined && this.#isNear(row)).map((row) => row.counter);
    const now = this.pieces;
    const has = (found) => lanes.every((lane) => found.placeOf.has(lane)) && counters.every((counter) => found.counters.has(counter));
    const fits = now && now.laid === this.laid && now.begin <= begin && now.end >= end && now.pixel === pixel && has(now);
    if (fits || this.asking) return;
    this.asking = true;
    const laid = this.laid;
    const margin = (end - begin) * AROUND;
    try {
      const found = await this.app.data.ask("timeline.view", { begin: begin - margin, end: end + margin, pixel, lanes, counters, closely: this.closely });
      found.placeOf = new Map(found.lanes.map((lane, place) => [lane, place]));
      found.counters = new Map(found.counted.map((one) => [one.counter, one]));
      this.pieces = { ...found, laid };
      this.pointer.again();
    } finally {
      this.asking = false;
    }
    this.#change();
  }

  #isNear(row) {
    return row.y + row.height > this.top - 200 && row.y < this.top + this.picture.height + 200;
  }

  #pan(dx, dy) {
    const by = dx * this.picture.pixel(this.view);
    if (dx) this.view = limited(this.view.begin - by, this.view.end - by, this.about.length);
    this.top -= dy;
    this.#change();
  }

  #zoom(factor, x) {
    const at = x === undefined ? this.pointer.time : this.picture.time(Math.max(x, this.picture.gutter), this.view);
    this.view = zoomed(this.view, factor, at, this.about.length);
    this.#change();
  }

  #fit(begin, end) {
    this.view = around(begin, end, this.about.length);
    this.#change();
  }

  async #fitStep(x, y) {
    if (x < this.picture.gutter || y < RULER) return;
    const found = await this.app.data.ask("timeline.step", { time: this.picture.time(x, this.view) });
    const piece = this.pointer.pieceAt(x, y);
    if (found) this.#fit(found.begin, found.end);
    else if (piece) this.#fit(piece.begin, piece.end);
  }

  #click(x, y) {
    this.canvas.focus({ preventScroll: true });
    const row = this.pointer.rowAt(y);
    if (this.pointer.folds(row, x)) {
      if (!this.turned.delete(row.fold)) this.turned.add(row.fold);
      this.plan = layout(this.about, this.turned, this.closely);
      this.#change();
      return;
    }
    const piece = this.pointer.pieceAt(x, y);
    const ofMerged = this.about.merged && piece?.row < this.about.slices; // no single slice can be opened where they are merged
    if (piece && piece.many > 1 && !ofMerged) this.#fit(piece.begin, piece.end);
    else if (piece) this.choice.choose(piece.row);
    else this.choice.clear();
  }

  #reveal(slice) {
    const { begin, end } = slice;
    this.revealed = slice;
    if (end < this.view.begin || begin > this.view.end) {
      const half = (this.view.end - this.view.begin) / 2;
      this.view = limited((begin + end) / 2 - half, (begin + end) / 2 + half, this.about.length);
    }
  }

  /** Called once the picture has its size: details stand below it. */
  #scrollTo({ lane }) {
    const row = this.plan.rows.find((one) => one.lane === lane);
    if (row && (row.y < this.top || row.y + row.height > this.top + this.picture.height - RULER)) this.top = row.y - this.picture.height / 2;
  }

  #mark(from, to, done) {
    const [one, other] = [from, to].map((x) => this.picture.time(Math.max(x, this.picture.gutter), this.view));
    this.choice.mark(one, other, done);
  }

  /** Whether it was one of ours. */
  key(event) {
    if (!this.view) return false;
    const across = (this.picture.width - this.picture.gutter) * 0.15;
    const anywhere = {
      w: () => this.#zoom(1 / 1.4),
      s: () => this.#zoom(1.4),
      a: () => this.#pan(across, 0),
      d: () => this.#pan(-across, 0),
      PageUp: () => this.#pan(0, 200),
      PageDown: () => this.#pan(0, -200),
      0: () => this.#fit(0, this.about.length),
      Escape: () => this.choice.clear(),
    };
    const onCanvas = {
      ArrowLeft: () => this.choice.before(),
      ArrowRight: () => this.choice.after(),
      ArrowUp: () => this.choice.above(),
      ArrowDown: () => this.choice.below(),
      Enter: () => this.choice.slice && this.#fit(this.choice.slice.begin, this.choice.slice.end),
    };
    const free = event.target === this.canvas || event.target === document.body;
    const act = anywhere[event.key] ?? (free ? onCanvas[event.key] : undefined);
    act?.();
    return Boolean(act);
  }
}

export const view = {
  name: "timeline",
  title: "Timeline",
  key: "4",
  keys: [
    ["w s", "zoom in and out, about the pointer"],
    ["a d", "pan"],
    ["← →", "the slice before, the next"],
    ["↑ ↓", "the lane above, below"],
    ["Enter", "fit the slice"],
    ["0", "the whole run"],
    ["Esc", "let go of slice and range"],
  ],
  create(app) {
    const made = new Timeline(app);
    return { body: made.body, show: (state) => made.show(state), leave: () => made.leave(), key: (event) => made.key(event) };
  },
};
