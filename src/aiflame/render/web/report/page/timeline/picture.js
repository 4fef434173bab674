// Draws the timeline: a ruler, labels, and the pieces of each lane that the worker has found.

import { counted, Ruler } from "../../../text.js";
import { moment, tickStep } from "../ui/time_text.js";
import { LANE } from "./layout.js";
import { drawNames, drawStack } from "./stack.js";

export const RULER = 26;
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const LABEL = "#141519";

export class Picture {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.ruler = new Ruler(FONT);
    this.gutter = 150;
  }

  /** Fits the canvas to its element. */
  resize() {
    const scale = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (this.canvas.width !== Math.round(width * scale)) this.canvas.width = Math.round(width * scale);
    if (this.canvas.height !== Math.round(height * scale)) this.canvas.height = Math.round(height * scale);
    this.gutter = Math.min(150, Math.max(70, Math.round(width * 0.16)));
    this.width = width;
    this.height = height;
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
  }

  /** Time at a place on the canvas, and the other way round. */
  time(x, view) {
    return view.begin + ((x - this.gutter) / (this.width - this.gutter)) * (view.end - view.begin);
  }

  /** How long a pixel is. */
  pixel(view) {
    return (view.end - view.begin) / Math.max(1, this.width - this.gutter);
  }

  x(time, view) {
    return this.gutter + ((time - view.begin) / (view.end - view.begin)) * (this.width - this.gutter);
  }

  /** `scene`: {about, rows, top, view, pieces, color, partColors, style, chosen, hovered, range} */
  draw(scene) {
    const { context } = this;
    this.style = scene.style;
    context.font = FONT;
    context.textBaseline = "middle";
    context.fillStyle = this.style.paper;
    context.fillRect(0, 0, this.width, this.height);
    const step = tickStep(((scene.view.end - scene.view.begin) / (this.width - this.gutter)) * 90);
    this.#lines(scene, step);
    context.save();
    context.beginPath();
    context.rect(this.gutter, RULER, this.width - this.gutter, this.height - RULER);
    context.clip();
    this.#shadeRange(scene);
    for (const row of scene.rows) {
      const y = RULER + row.y - scene.top;
      if (row.lane !== undefined && y > -LANE && y < this.height) this.#lane(scene, row, y);
      if (row.counter !== undefined && y > -row.height && y < this.height) this.#counter(scene, row, y);
    }
    this.#outlines(scene);
    context.restore();
    this.#labels(scene);
    this.#scale(scene, step);
  }

  #lines(scene, step) {
    const { context } = this;
    context.fillStyle = this.style.line;
    context.globalAlpha = 0.45;
    for (let tick = Math.ceil(scene.view.begin / step) * step; tick < scene.view.end; tick += step) {
      context.fillRect(Math.round(this.x(tick, scene.view)), RULER, 1, this.height);
    }
    context.globalAlpha = 1;
  }

  #lane(scene, row, y) {
    const pieces = scene.pieces;
    const place = pieces?.placeOf.get(row.lane);
    if (place === undefined) return;
    const { context } = this;
    const { left, right, level, name, kind, many } = pieces;
    const { begin, end } = scene.view;
    const scale = (this.width - this.gutter) / (end - begin);
    const height = LANE - 2;
    let fill = "";
    for (let at = pieces.from[place]; at < pieces.from[place + 1]; at++) {
      if (right[at] < begin) continue;
      if (left[at] > end) break;
      const x = this.gutter + (left[at] - begin) * scale;
      const from = Math.max(x, this.gutter - 2);
      const width = Math.min(this.gutter + (right[at] - begin) * scale, this.width + 2) - from;
      const color = scene.color(kind[at], name[at]);
      if (color !== fill) context.fillStyle = fill = color;
      context.globalAlpha = level[at] === 255 ? 1 : 0.35 + (0.65 * level[at]) / 255;
      const inner = width > 4 ? width - 0.75 : Math.max(width, 0.8);
      context.fillRect(from, y + 1, inner, height);
      if (width > 22) {
        context.globalAlpha = 1;
        const shown = Math.max(from, this.gutter);
        const text = many[at] > 1 ? `${many[at].toLocaleString("en-US")} ×` : scene.about.names[name[at]];
        const fitting = this.ruler.fit(text, from + inner - shown - 6);
        if (fitting) {
          context.fillStyle = level[at] > 140 || scene.theme === "light" ? LABEL : this.style.ink;
          context.fillText(fitting, shown + 3, y + LANE / 2 + 0.5);
          fill = "";
        }
      }
    }
    context.globalAlpha = 1;
  }

  /** A counter's values in each pixel: filled up to the lowest, lighter up to the highest; or its parts on top of each other. */
  #counter({ about, pieces, view, partColors }, row, y) {
    const { context } = this;
    const { floor, top, unit } = about.counters[row.counter];
    const found = pieces?.counters.get(row.counter);
    const [bottom, room] = [y + row.height - 1, row.height - 4];
    context.fillStyle = this.style.line;
    context.fillRect(this.gutter, bottom, this.width, 1);
    if (!found) return;
    const scale = (this.width - this.gutter) / (view.end - view.begin);
    const height = (value) => Math.max(0, Math.min(1, (value - floor) / (top - floor))) * room;
    const column = (time) => Math.floor((time - pieces.begin) / pieces.pixel);
    const [from, to] = [Math.max(0, column(view.begin)), Math.min(found.low.length, column(view.end) + 1)];
    context.fillStyle = this.style.accent;
    const left = (at) => this.gutter + (pieces.begin + at * pieces.pixel - view.begin) * scale;
    const wide = pieces.pixel * scale + 0.3;
    if (row.parts) {
      const parts = row.parts.map((part) => about.counters[part]);
      drawStack(context, { parts, values: found.parts, colors: partColors, bottom, from, to, x: left, wide, height });
    }
    for (let at = from; at < to && !row.parts; at++) {
      if (!(found.high[at] > floor)) continue; // NaN, too: nothing was counted yet
      const x = left(at);
      const [low, high] = [height(found.low[at]), height(found.high[at])];
      context.globalAlpha = 0.3;
      context.fillRect(x, bottom - low, wide, low);
      context.globalAlpha = 0.75;
      context.fillRect(x, bottom - high, wide, Math.max(high - low, 1));
    }
    context.globalAlpha = 1;
    const text = counted(top, unit);
    const width = context.measureText(text).width;
    context.fillStyle = this.style.paper;
    context.globalAlpha = 0.8;
    context.fillRect(this.width - width - 10, y + 2, width + 8, 12);
    context.globalAlpha = 1;
    context.fillStyle = this.style.soft;
    context.fillText(text, this.width - width - 6, y + 9);
  }

  #outlines({ chosen, hovered, rows, top, view }) {
    const { context } = this;
    for (const [slice, color, width] of [[hovered, this.style.ink, 1], [chosen, this.style.accent, 2]]) {
      const row = slice && rows.find((one) => one.lane === slice.lane);
      if (!row || slice.end < view.begin || slice.begin > view.end) continue;
      const from = Math.max(this.x(slice.begin, view), this.gutter - 3);
      const to = Math.min(this.x(slice.end, view), this.width + 3);
      context.strokeStyle = color;
      context.lineWidth = width;
      context.strokeRect(from - 0.5, RULER + row.y - top + 0.5, Math.max(to - from, 2) + 1, LANE - 1);
    }
    if (chosen?.delay) {
      const x = Math.round(this.x(chosen.begin - chosen.delay, view));
      context.fillStyle = this.style.accent;
      for (let y = RULER; y < this.height; y += 6) context.fillRect(x, y, 1, 3);
    }
  }

  #shadeRange({ range, view }) {
    if (!range) return;
    const [from, to] = [this.x(range.begin, view), this.x(range.end, view)];
    this.context.fillStyle = this.style.accent;
    this.context.globalAlpha = 0.12;
    this.context.fillRect(from, RULER, Math.max(to - from, 1), this.height);
    this.context.globalAlpha = 1;
  }

  #labels({ about, rows, top, partColors }) {
    const { context, gutter } = this;
    context.save();
    context.beginPath();
    context.rect(0, RULER, this.width, this.height - RULER);
    context.clip();
    context.fillStyle = this.style.field;
    context.fillRect(0, RULER, gutter, this.height);
    context.fillStyle = this.style.line;
    context.fillRect(gutter - 1, RULER, 1, this.height);
    for (const row of rows) {
      const y = RULER + row.y - top;
      if (y < -row.height || y > this.height) continue;
      const middle = y + row.height / 2 + 0.5;
      const indent = 6 + 8 * row.depth;
      if (row.title !== undefined) {
        context.fillStyle = this.style.field;
        context.fillRect(0, y, this.width, row.height - 2);
        context.fillStyle = this.style.ink;
        context.font = `600 ${FONT}`;
        context.fillText(this.ruler.fit(row.title, (this.width - indent - 24) * 0.93), indent + 12, middle - 1);
        context.font = FONT;
      } else if (row.parts) {
        const parts = row.parts.map((part) => about.counters[part]);
        const fit = (text, width) => this.ruler.fit(text, width);
        drawNames(context, { parts, colors: partColors, y, indent, gutter, fit, ink: this.style.soft });
      } else {
        context.fillStyle = this.style.soft;
        context.fillText(this.ruler.fit(row.label, gutter - indent - 18), indent + 12, middle);
      }
      if (row.fold !== undefined) this.#triangle(indent, middle - (row.title === undefined ? 0 : 1), row.folded);
    }
    context.restore();
  }

  #triangle(x, y, folded) {
    const { context } = this;
    context.fillStyle = this.style.soft;
    context.beginPath();
    if (folded) [[x, y - 4], [x + 5, y], [x, y + 4]].forEach(([one, other]) => context.lineTo(one, other));
    else [[x - 1, y - 2.5], [x + 7, y - 2.5], [x + 3, y + 3]].forEach(([one, other]) => context.lineTo(one, other));
    context.fill();
  }

  /** Far from the beginning, ticks say how far they are from the moment that stands at the left. */
  #scale({ view, range }, step) {
    const { context } = this;
    context.fillStyle = this.style.raised;
    context.fillRect(0, 0, this.width, RULER);
    const whole = view.begin > 20000 * step ? Math.floor(view.begin / (1000 * step)) * 1000 * step : 0;
    if (range) {
      const [from, to] = [Math.max(this.x(range.begin, view), this.gutter), Math.min(this.x(range.end, view), this.width)];
      context.fillStyle = this.style.accent;
      context.globalAlpha = 0.3;
      context.fillRect(from, 0, Math.max(to - from, 1), RULER);
      context.globalAlpha = 1;
    }
    context.fillStyle = this.style.soft;
    context.fillText(this.ruler.fit(whole ? moment(whole, 1000 * step) : "time", this.gutter - 12), 6, RULER / 2);
    for (let tick = Math.ceil(view.begin / step) * step; tick < view.end; tick += step) {
      const x = Math.round(this.x(tick, view));
      context.fillStyle = this.style.line;
      context.fillRect(x, RULER - 7, 1, 7);
      context.fillStyle = this.style.soft;
      const text = `${whole ? "+" : ""}${moment(tick - whole, step)}`;
      if (x + 4 + this.context.measureText(text).width < this.width) context.fillText(text, x + 4, RULER / 2);
    }
    context.fillStyle = this.style.line;
    context.fillRect(0, RULER - 1, this.width, 1);
  }
}
