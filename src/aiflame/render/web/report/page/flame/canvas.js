// The picture: a canvas that shows a window of the graph. It draws only the frames in the window.

import { bars, labelFor } from "../../../flame/bars.js";
import { Viewport } from "../../../flame/viewport.js";
import { Ruler } from "../../../text.js";
import { Layer } from "./paint.js";

export const ROW = 19;
const BAR = 18;
const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const EASE_MS = 160;
const LEAST_WINDOW = 1e-12; // of the whole

export class Chart extends Viewport {
  constructor(canvas, drawn) {
    super(ROW);
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.ruler = new Ruler(FONT);
    this.drawn = drawn; // called after each picture
    this.colors = null;
    this.lit = null; // test of a node: others are dim
    this.frame = 0;
  }

  #motion = null;

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
    this.scroll = this.boundScroll(this.scroll + along);
    if (this.#motion) for (const one of [this.#motion.from, this.#motion.target]) one.scroll = this.boundScroll(one.scroll + along);
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
    const target = { left, width, scroll: this.boundScroll(scroll) };
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

  nodeAt(x, y) {
    if (!this.model) return -1;
    const first = this.top(this.down ? 0 : this.model.levels - 1);
    const slot = Math.floor((y - first) / ROW);
    const row = this.down ? slot : this.model.levels - 1 - slot;
    const { model, window } = this;
    if (row < 0 || row >= model.levels) return -1;
    const at = window.left + (x * window.width) / this.pixels;
    const place = model.firstAt(row, at);
    if (place >= model.starts[row + 1]) return -1;
    const node = model.rows[place];
    return model.left[node] <= at && model.width[node] > 0 ? node : -1;
  }

  /** The frames that the canvas shows: for tests, and for a reader of the page that cannot see a canvas. */
  seen() {
    const found = [];
    const box = this.canvas.getBoundingClientRect();
    this.rowsInSight((row, y) =>
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
    this.rowsInSight((row, y) => this.#paintRow(layer, row, y));
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

  #fade(node) {
    if (this.lit && !this.lit(node)) return 2;
    return this.isAbove(node) ? 1 : 0;
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
    // Both edges move in step, so that the frame that a person zooms to stays in sight.
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
}
