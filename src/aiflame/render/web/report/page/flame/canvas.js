// The picture: a canvas that shows a window of the graph. It draws what is in view and nothing else.

import { Ruler } from "../../../text.js";
import { bars, labelFor, Layer, NARROW } from "./paint.js";

export const ROW = 19;
const BAR = 18;
const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const EASE_MS = 160;
const LEAST_WINDOW = 1e-12; // of the whole
const SPARE_ROWS = 3; // callers that stay in sight above a zoomed frame

export class Chart {
  constructor(canvas, drawn) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.ruler = new Ruler(FONT);
    this.drawn = drawn; // called after each picture
    this.model = null;
    this.colors = null;
    this.found = null;
    this.lit = null; // test of a node: others are dim
    this.zoom = 0;
    this.current = 0; // of the keyboard
    this.hovered = -1;
    this.down = false;
    this.scroll = 0;
    this.window = { left: 0, width: 1 };
    this.pixels = 0;
    this.height = 0;
    this.frame = 0;
  }

  #motion = null;

  get whole() {
    return Math.max(this.model.width[0], 1);
  }

  get content() {
    return this.model.levels * ROW;
  }

  get zoomed() {
    return this.window.left > this.whole * 1e-9 || this.window.width < this.whole * (1 - 1e-9);
  }

  resize(pixels, height) {
    const ratio = devicePixelRatio || 1;
    const along = !this.down && this.height ? this.height - height : 0; // a flame keeps its ground
    this.pixels = Math.max(pixels, 50);
    this.height = Math.max(height, ROW);
    if (this.model) this.#shift(along);
    this.ratio = ratio;
    const [wide, tall] = [Math.round(this.pixels * ratio), Math.round(this.height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== tall) {
      this.canvas.width = wide;
      this.canvas.height = tall;
    }
    if (this.model) this.paint();
  }

  #shift(along) {
    this.scroll = this.#boundScroll(this.scroll + along);
    if (this.#motion) for (const one of [this.#motion.from, this.#motion.target]) one.scroll = this.#boundScroll(one.scroll + along);
  }

  /** The next picture, with the browser's next frame. */
  draw() {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.paint());
  }

  setWindow(left, width) {
    this.#motion = null;
    this.#place(left, width);
    this.draw();
  }

  /** Moves to a window, in a moment where the person does not mind motion. */
  moveTo(left, width, scroll, done = () => {}) {
    const target = { left, width, scroll: this.#boundScroll(scroll) };
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.#place(left, width);
      this.scroll = target.scroll;
      this.#motion = null;
      this.draw();
      done();
      return;
    }
    this.#motion = { from: { ...this.window, scroll: this.scroll }, target, began: performance.now(), done };
    this.draw();
  }

  get moving() {
    return this.#motion !== null;
  }

  scrollTo(top) {
    this.scroll = this.#boundScroll(top);
    this.draw();
  }

  /** Scroll at which a zoomed node stands at the edge that its callees grow from, some callers in sight. */
  scrollFor(node) {
    const slot = this.slot(this.model.row(node));
    if (this.model.lift > 0 && node === 0) return slot * ROW - Math.round(this.height * 0.4);
    const spare = Math.min(SPARE_ROWS, this.model.row(node)) * ROW;
    return this.down ? slot * ROW - spare : (slot + 1) * ROW + spare - this.height;
  }

  /** Where a row is, counted from the top. */
  slot(row) {
    return this.down ? row : this.model.levels - 1 - row;
  }

  /** y of a row in the canvas. A flame that is lower than its window stands on the ground. */
  top(row) {
    return this.slot(row) * ROW - this.scroll + (this.down ? 0 : Math.max(0, this.height - this.content));
  }

  span(node) {
    const scale = this.pixels / this.window.width;
    const from = (this.model.left[node] - this.window.left) * scale;
    return [from, from + this.model.width[node] * scale];
  }

  nodeAt(x, y) {
    if (!this.model) return -1;
    const first = this.top(this.down ? 0 : this.model.levels - 1);
    const slot = Math.floor((y - first) / ROW);
    const row = this.down ? slot : this.model.levels - 1 - slot;
    return this.model.at(row, this.window.left + (x * this.window.width) / this.pixels);
  }

  reveal(node) {
    const top = this.top(this.model.row(node));
    if (top < 0) this.scrollTo(this.scroll + top);
    else if (top + ROW > this.height) this.scrollTo(this.scroll + top + ROW - this.height);
  }

  /** The next frame in the row that is wide enough to see, or -1. */
  beside(node, step) {
    const { model } = this;
    const row = model.row(node);
    for (let place = model.position(node) + step; place >= model.starts[row] && place < model.starts[row + 1]; place += step) {
      const [from, to] = this.span(model.rows[place]);
      if (to <= 0 || from >= this.pixels) return -1;
      if (to - from >= NARROW) return model.rows[place];
    }
    return -1;
  }

  /** What a person sees: for tests, and for whoever must tell it otherwise. */
  seen() {
    const found = [];
    const box = this.canvas.getBoundingClientRect();
    this.#rows((row, y) =>
      bars(this.model, row, this.window, this.pixels, this.found, (node, from, to, many, match) => {
        const x = Math.max(from, 0);
        const fade = this.#fade(node);
        const width = Math.min(to, this.pixels) - x;
        const color = this.colors.css(match ? this.colors.found : this.colors.of(this.model, node));
        const label = many ? "" : labelFor(this.model, node, width, this.ruler);
        const how = { many, match, above: fade === 1, dim: fade === 2, color, label };
        found.push({ node, name: this.model.name(node), depth: this.model.depth[node], x: box.x + x, y: box.y + y, width, ...how });
      }),
    );
    return found;
  }

  paint() {
    this.frame = 0;
    if (!this.model || !this.pixels) return;
    if (this.ratio !== (devicePixelRatio || 1)) this.resize(this.pixels, this.height); // the window went to another screen
    const began = performance.now();
    const moving = this.#advance(began);
    const { context, colors } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.pixels, this.height);
    context.font = FONT;
    context.textBaseline = "alphabetic";
    const layer = new Layer();
    this.#rows((row, y) => this.#paintRow(layer, row, y));
    layer.paint(context, colors);
    if (this.hovered >= 0 && this.hovered < this.model.count) this.#outline(this.hovered, colors.ink, 1);
    if (document.activeElement === this.canvas.parentElement) this.#outline(this.current, colors.accent, 2);
    if (this.model.lift > 0) this.#outline(0, colors.ink, 2);
    this.#thumb();
    performance.measure(moving ? "aiflame:zoom" : "aiflame:paint", { start: began });
    if (moving) this.draw();
    this.drawn();
  }

  #paintRow(layer, row, y) {
    const { model, colors, pixels, ratio } = this;
    const sharp = (x) => Math.round(x * ratio) / ratio;
    bars(model, row, this.window, pixels, this.found, (node, from, to, many, match) => {
      const x = sharp(Math.max(from, 0));
      const end = sharp(Math.min(to, pixels));
      const fade = this.#fade(node);
      const color = match ? colors.found : colors.of(model, node);
      if (many) {
        layer.add(color, fade === 0 && !match ? 3 : fade, x, y, Math.max(end - x, 0.5), BAR);
        return;
      }
      const wide = end - x;
      layer.add(color, fade, x, y, wide > 2 ? wide - 1 / Math.min(ratio, 2) : Math.max(wide, 0.5), BAR);
      const text = labelFor(model, node, wide, this.ruler);
      if (text) layer.label(text, x + 4, y + 13, fade);
    });
  }

  #rows(each) {
    for (let row = 0; row < this.model.levels; row++) {
      const y = this.top(row);
      if (y + ROW > 0 && y < this.height) each(row, y);
    }
  }

  #fade(node) {
    if (this.lit && !this.lit(node)) return 2;
    const { model, zoom } = this;
    return zoom > 0 && node < zoom && model.after[node] > zoom ? 1 : 0;
  }

  #outline(node, color, thick) {
    const [from, to] = this.span(node);
    if (to <= 0 || from >= this.pixels || to - from < 0.1) return;
    const x = Math.max(from, 0);
    const wide = Math.max(Math.min(to, this.pixels) - x, 1);
    const half = thick / 2;
    this.context.strokeStyle = color;
    this.context.lineWidth = thick;
    this.context.strokeRect(x + half, this.top(this.model.row(node)) + half, Math.max(wide - thick, 0.5), BAR - thick);
  }

  /** Where one is, in a graph that is taller than its window. */
  #thumb() {
    if (this.content <= this.height) return;
    const tall = Math.max(24, (this.height * this.height) / this.content);
    const y = (this.scroll / (this.content - this.height)) * (this.height - tall);
    this.context.fillStyle = this.colors.ink;
    this.context.globalAlpha = 0.35;
    this.context.beginPath();
    this.context.roundRect(this.pixels - 6, y, 5, tall, 2.5);
    this.context.fill();
    this.context.globalAlpha = 1;
  }

  #advance(now) {
    if (!this.#motion) return false;
    const { from, target, began, done } = this.#motion;
    const part = Math.min(1, Math.max(0, now - began) / EASE_MS);
    const eased = 1 - (1 - part) ** 3;
    this.scroll = from.scroll + (target.scroll - from.scroll) * eased;
    // Both edges move in step, so that what one zooms to stays in sight.
    const left = from.left + (target.left - from.left) * eased;
    const right = from.left + from.width + (target.left + target.width - from.left - from.width) * eased;
    this.#place(left, right - left);
    if (part < 1) return true;
    this.#motion = null;
    this.#place(target.left, target.width);
    this.scroll = target.scroll;
    done();
    return true;
  }

  #place(left, width) {
    const { whole } = this;
    const wide = Math.min(Math.max(width, whole * LEAST_WINDOW), whole);
    this.window = { left: Math.min(Math.max(left, 0), whole - wide), width: wide };
  }

  #boundScroll(top) {
    return Math.min(Math.max(0, top), Math.max(0, this.content - this.height));
  }
}
