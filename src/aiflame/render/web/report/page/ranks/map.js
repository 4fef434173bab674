// Ranks × steps as a heat map: a row for each rank, a column for each step, or for neighbours of many. However many ranks there are, it is
// one canvas.

import { amount } from "../../../text.js";
import { lowerBound } from "../../shared/sorted.js";
import { element } from "../ui/dom.js";

const LEFT = 64;
const BOTTOM = 20;
const TALLEST = 22;
const ROOM = 420; // px that all rows together take, as long as each has one
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

export class RankMap {
  #on;
  #about = null;
  #values = null;
  #quantity = null;
  #cursor = null; // [row, column] that the keys move
  #hovered = null;
  #step = -1;
  #context;
  #made = { key: "", cells: null };

  /** `chosen(rank, step)`: a click, or Enter; `say(text)`. */
  constructor(on) {
    this.#on = on;
    this.canvas = element("canvas.rank-map", { tabIndex: 0, role: "application" });
    this.canvas.setAttribute("aria-label", "Ranks and steps. Arrow keys go from cell to cell, Enter shows the critical path of the step.");
    this.#context = this.canvas.getContext("2d");
    this.told = element("p.rank-caption.soft");
    this.body = element("div.rank-map-holder", {}, element("div.rank-map-scroll", {}, this.canvas), this.told);
    this.canvas.addEventListener("mousemove", (event) => this.#hover(this.#cellAt(event)));
    this.canvas.addEventListener("mouseleave", () => this.#hover(null));
    this.canvas.addEventListener("click", (event) => this.#choose(this.#cellAt(event)));
    this.canvas.addEventListener("focus", () => this.#move(0, 0));
    this.canvas.addEventListener("blur", () => this.#point(null));
    new ResizeObserver(() => this.draw()).observe(this.body);
  }

  /** @param about the answer of `ranks.about`; `quantity`: one of its map; `values` its values; `step`: the step that is looked at. */
  show(about, quantity, values, step) {
    this.#about = about;
    this.#quantity = quantity;
    this.#values = values;
    this.#step = step;
    this.told.textContent = this.#text(this.#hovered ?? this.#cursor);
    this.draw();
  }

  /** Keys of the cell. */
  key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-16, 0], PageDown: [16, 0] };
    if (document.activeElement !== this.canvas) return false;
    if (event.key === "Enter") this.#choose(this.#cursor);
    else if (event.key === "Home") this.#move(0, -Infinity);
    else if (event.key === "End") this.#move(0, Infinity);
    else if (event.key in moves) this.#move(...moves[event.key]);
    else return false;
    return true;
  }

  get #ranks() {
    return this.#about.ranks.length;
  }

  get #columns() {
    return this.#about.first.length;
  }

  get #tall() {
    return Math.max(1, Math.min(TALLEST, Math.floor(ROOM / this.#ranks)));
  }

  get #wide() {
    return Math.max(1, (this.body.clientWidth - LEFT - 2) / this.#columns);
  }

  draw() {
    if (!this.#values || !this.body.clientWidth) return;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [Math.max(this.body.clientWidth, LEFT + this.#columns), this.#ranks * this.#tall + BOTTOM];
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const style = getComputedStyle(this.canvas);
    const color = (name) => style.getPropertyValue(name).trim();
    const context = this.#context;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = FONT;
    context.fillStyle = color("--raised");
    context.fillRect(0, 0, width, height);
    this.#cells(context, color);
    this.#axes(context, color);
    for (const [cell, name] of [[this.#hovered, "--ink"], [this.#cursor, "--accent"]]) if (cell) this.#outline(context, cell, color(name));
  }

  /** A pixel for each cell, made once for each quantity and theme: there may be hundreds of thousands. */
  #image(color) {
    const colors = [color("--raised"), color("--field"), color("--flag")];
    const key = [this.#quantity.name, ...colors].join();
    if (this.#made.key === key) return this.#made.cells;
    const cells = document.createElement("canvas");
    [cells.width, cells.height] = [this.#columns, this.#ranks];
    const context = cells.getContext("2d", { willReadFrequently: true });
    const [none, least, most] = colors.map((one) => {
      context.fillStyle = one;
      context.fillRect(0, 0, 1, 1);
      return context.getImageData(0, 0, 1, 1).data;
    });
    const image = context.createImageData(cells.width, cells.height);
    const full = Math.max(this.#quantity.most / 1000, 1);
    for (let at = 0; at < this.#values.length; at++) {
      const value = this.#values[at]; // 0: the rank has no such step
      const part = value > 0 ? Math.min(1, (value - 1) / full) : 0;
      for (let channel = 0; channel < 3; channel++) {
        image.data[4 * at + channel] = value === 0 ? none[channel] : least[channel] + (most[channel] - least[channel]) * part;
      }
      image.data[4 * at + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    this.#made = { key, cells };
    return cells;
  }

  #cells(context, color) {
    const [tall, wide] = [this.#tall, this.#wide];
    context.imageSmoothingEnabled = false;
    context.drawImage(this.#image(color), LEFT, 0, wide * this.#columns, tall * this.#ranks);
    if (wide <= 6 || tall <= 6) return;
    context.fillStyle = color("--raised");
    for (let row = 1; row <= this.#ranks; row++) context.fillRect(LEFT, row * tall - 1, wide * this.#columns, 1);
    for (let column = 1; column <= this.#columns; column++) context.fillRect(Math.round(LEFT + column * wide) - 1, 0, 1, tall * this.#ranks);
  }

  #axes(context, color) {
    const [tall, wide] = [this.#tall, this.#wide];
    const bottom = this.#ranks * tall;
    context.fillStyle = color("--soft");
    context.textBaseline = "middle";
    context.textAlign = "right";
    const each = tickEvery(this.#ranks, 15 / tall);
    for (let row = 0; row < this.#ranks; row += each) context.fillText(`rank ${this.#about.ranks[row]}`, LEFT - 8, Math.max((row + 0.5) * tall, 6));
    context.textAlign = "center";
    const apart = tickEvery(this.#columns, 46 / wide);
    for (let column = 0; column < this.#columns; column += apart) {
      context.fillText(String(this.#about.first[column]), LEFT + (column + 0.5) * wide, bottom + 11);
    }
    const at = this.#columnOf(this.#step);
    if (at < 0) return;
    context.fillStyle = color("--accent");
    context.fillRect(LEFT + at * wide, bottom + 1, Math.max(wide - 1, 2), 2);
  }

  #outline(context, [row, column], style) {
    const [tall, wide] = [this.#tall, this.#wide];
    context.strokeStyle = style;
    context.lineWidth = 1.5;
    context.strokeRect(LEFT + column * wide - 0.5, row * tall - 0.5, Math.max(wide, 3), Math.max(tall, 3));
  }

  #columnOf(step) {
    if (step < 0 || step > this.#about.map.last) return -1;
    const at = lowerBound(this.#about.first, step + 1) - 1;
    return at;
  }

  #cellAt(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - left - LEFT) / this.#wide);
    const row = Math.floor((event.clientY - top) / this.#tall);
    return column >= 0 && column < this.#columns && row >= 0 && row < this.#ranks ? [row, column] : null;
  }

  #hover(cell) {
    if (String(cell) === String(this.#hovered)) return;
    this.#hovered = cell;
    this.told.textContent = this.#text(cell ?? this.#cursor);
    this.draw();
  }

  #point(cell) {
    this.#cursor = cell;
    this.told.textContent = this.#text(cell);
    this.draw();
  }

  #move(down, right) {
    if (!this.#values) return;
    const [row, column] = this.#cursor ?? [0, Math.max(this.#columnOf(this.#step), 0)];
    const bound = (value, count) => Math.max(0, Math.min(count - 1, value));
    this.#point([bound(row + down, this.#ranks), bound(column + right, this.#columns)]);
    this.#on.say(this.told.textContent);
  }

  #choose(cell) {
    if (cell) this.#on.chosen(this.#about.ranks[cell[0]], this.#about.first[cell[1]]);
  }

  #text(cell) {
    if (!cell) return this.#quantity ? `${this.#quantity.label}: ${this.#quantity.says}` : "";
    const [row, column] = cell;
    const value = this.#values[row * this.#columns + column];
    const [from, after] = [this.#about.first[column], this.#about.first[column + 1] ?? this.#about.map.last + 1];
    const steps = after - from > 1 ? `steps ${from} to ${after - 1}, mean` : `step ${from}`;
    const told = value === 0 ? "no such step" : amount((value - 1) * 1000, "ns");
    return `rank ${this.#about.ranks[row]}, ${steps}: ${told} · ${this.#quantity.label}`;
  }
}

/** The distance between labels in rows or columns: 1, 2 or 5 times a power of ten. */
function tickEvery(count, least) {
  for (let power = 1; power < count; power *= 10) for (const times of [1, 2, 5]) if (times * power >= least) return times * power;
  return Math.max(count, 1);
}
