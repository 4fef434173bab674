// Draws the heat map: cells, the sum above each column, axes, the selection.

import { amount } from "../../../text.js";
import { moment, tickStep } from "../ui/time_text.js";

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
export const LEFT = 64;
const RIGHT = 12;
export const TOP = 62;
const BOTTOM = 24;
const NARROWEST = 4; // px of a column, before neighbours become one
const WIDEST = 76;
const TALLEST = 60;

export class Picture {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.cells = document.createElement("canvas");
  }

  /** Fits the canvas to its element, and the window's columns to the canvas. */
  resize(grid, window) {
    const ratio = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (this.canvas.width !== Math.round(width * ratio)) this.canvas.width = Math.round(width * ratio);
    if (this.canvas.height !== Math.round(height * ratio)) this.canvas.height = Math.round(height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.width = width;
    this.height = height;
    const room = Math.max(10, width - LEFT - RIGHT);
    const [from, to] = window;
    this.from = from;
    this.together = Math.max(1, Math.ceil((to - from) / Math.max(1, Math.floor(room / NARROWEST))));
    this.shown = Math.ceil((to - from) / this.together);
    this.cellWidth = Math.min(WIDEST, room / this.shown);
    this.cellHeight = Math.min(TALLEST, Math.max(1, (height - TOP - BOTTOM) / grid.rows));
    this.plotHeight = this.cellHeight * grid.rows;
    this.plotWidth = this.cellWidth * this.shown;
  }

  /** Column (the first, of several together) and row of a place; null outside of the cells. */
  cellAt(x, y, grid, clamp = false) {
    let column = Math.floor((x - LEFT) / this.cellWidth);
    let row = Math.floor((TOP + this.plotHeight - y) / this.cellHeight);
    const inside = column >= 0 && column < this.shown && row >= 0 && row < grid.rows;
    if (!inside && !clamp) return null;
    column = Math.max(0, Math.min(this.shown - 1, column));
    row = Math.max(0, Math.min(grid.rows - 1, row));
    return { column: Math.min(this.from + column * this.together, grid.columns - 1), row };
  }

  /** The column that is about to be zoomed into. */
  columnAt(x) {
    return this.from + ((x - LEFT) / this.cellWidth) * this.together;
  }

  /** Where a cell is drawn. */
  placeOf({ column, row }) {
    const x = LEFT + Math.floor((column - this.from) / this.together) * this.cellWidth;
    return { x, y: TOP + this.plotHeight - (row + 1) * this.cellHeight, width: this.cellWidth, height: this.cellHeight };
  }

  /** Of columns that are drawn as one: the mean. */
  value(grid, column, row) {
    return this.#mean(grid, column, row, (index) => grid.values[index]);
  }

  #mean(grid, column, row, of) {
    const end = Math.min(column + this.together, grid.columns);
    let sum = 0;
    for (let at = column; at < end; at++) sum += of(at * grid.rows + row);
    return sum / (end - column);
  }

  /** `scene`: {grid, tone(value), colors, style, selection: [first, last] of cells, cursor, hovered, unit, aboveLabel} */
  draw(scene) {
    const { context } = this;
    context.font = FONT;
    context.fillStyle = scene.style.paper;
    context.fillRect(0, 0, this.width, this.height);
    this.#heat(scene);
    this.#above(scene);
    this.#axes(scene);
    this.#selection(scene);
    for (const [cell, color] of [[scene.hovered, scene.style.ink], [scene.cursor, scene.style.accent]]) {
      if (!cell || cell.column < this.from || cell.column >= this.from + this.shown * this.together) continue;
      const { x, y, width, height } = this.placeOf(cell);
      context.strokeStyle = color;
      context.lineWidth = cell === scene.cursor ? 2 : 1.5;
      context.strokeRect(x - 0.5, y - 0.5, Math.max(width, 3) + 0.5, Math.max(height, 3) + 0.5);
    }
  }

  #heat({ grid, tone, colors, style }) {
    const { cells } = this;
    cells.width = this.shown;
    cells.height = grid.rows;
    const image = new ImageData(this.shown, grid.rows);
    const words = new Uint32Array(image.data.buffer);
    const palette = colors.map(([red, green, blue]) => (255 << 24) | (blue << 16) | (green << 8) | red);
    for (let at = 0; at < this.shown; at++) {
      for (let row = 0; row < grid.rows; row++) {
        const value = this.#mean(grid, this.from + at * this.together, row, (index) => grid.shade(index));
        if (value > 0) words[(grid.rows - 1 - row) * this.shown + at] = palette[tone(value)];
      }
    }
    cells.getContext("2d").putImageData(image, 0, 0);
    const { context } = this;
    context.fillStyle = style.field;
    context.fillRect(LEFT, TOP, this.plotWidth, this.plotHeight);
    context.imageSmoothingEnabled = false;
    context.drawImage(cells, LEFT, TOP, this.plotWidth, this.plotHeight);
    if (this.cellWidth < 9 || this.cellHeight < 7) return;
    context.fillStyle = style.paper;
    for (let at = 1; at < this.shown; at++) context.fillRect(LEFT + at * this.cellWidth - 1, TOP, 1, this.plotHeight);
    for (let row = 1; row < grid.rows; row++) context.fillRect(LEFT, TOP + row * this.cellHeight - 1, this.plotWidth, 1);
  }

  /** The length of each step as a line, or the sum of each column as bars. */
  #above({ grid, style, unit, aboveLabel }) {
    const { context } = this;
    const values = [];
    for (let at = 0; at < this.shown; at++) {
      const first = this.from + at * this.together;
      const last = Math.min(first + this.together, grid.columns);
      let most = 0;
      for (let column = first; column < last; column++) most = Math.max(most, grid.above(column));
      values.push(most);
    }
    // A first step that compiles must not make all others look alike.
    const sorted = [...values].sort((one, other) => one - other);
    const [middle, most] = [sorted[sorted.length >> 1], sorted.at(-1)];
    const top = Math.max(grid.kind === "step" && middle > 0 ? Math.min(most, 3 * middle) : most, 1e-9);
    const [base, high] = [TOP - 8, TOP - 26];
    const y = (value) => base - Math.min(1, value / top) * high;
    context.fillStyle = style.line;
    context.fillRect(LEFT, base, this.plotWidth, 1);
    context.strokeStyle = context.fillStyle = style.accent;
    if (grid.kind === "step") {
      context.lineWidth = 1.5;
      context.beginPath();
      values.forEach((value, at) => context.lineTo(LEFT + (at + 0.5) * this.cellWidth, y(value)));
      context.stroke();
      if (this.cellWidth > 6) for (const [at, value] of values.entries()) this.#dot(LEFT + (at + 0.5) * this.cellWidth, y(value), value > top);
    } else {
      context.globalAlpha = 0.55;
      for (const [at, value] of values.entries()) context.fillRect(LEFT + at * this.cellWidth, y(value), Math.max(1, this.cellWidth - 1), base - y(value));
      context.globalAlpha = 1;
    }
    context.fillStyle = style.soft;
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    const usual = grid.kind === "step" ? `half of them up to ${amount(middle, unit)}, ` : "";
    context.fillText(`${aboveLabel}: ${usual}${usual ? "the longest" : "up to"} ${amount(round(most), unit)}`, LEFT, 12);
  }

  /** The point of a column; an arrow upwards if the column is too high for the line. */
  #dot(x, y, above) {
    if (!above) {
      this.context.fillRect(x - 1.5, y - 1.5, 3, 3);
      return;
    }
    this.context.beginPath();
    for (const [across, down] of [[0, -4], [4, 3], [-4, 3]]) this.context.lineTo(x + across, y + down);
    this.context.fill();
  }

  #axes({ grid, style }) {
    const { context } = this;
    context.fillStyle = style.soft;
    context.textBaseline = "middle";
    context.textAlign = "right";
    const every = [1, 2, 5, 10, 20, 25, 50, 100].find((rows) => rows * this.cellHeight >= 18) ?? 100;
    for (let row = 0; row <= grid.rows; row += every) {
      const text = grid.kind === "step" ? `${Math.round((100 * row) / grid.rows)}%` : moment(row * grid.cell, grid.cell);
      const y = Math.min(TOP + this.plotHeight - row * this.cellHeight, TOP + this.plotHeight - 4);
      context.fillText(text, LEFT - 6, Math.max(y, TOP + 5));
    }
    context.textBaseline = "top";
    const perColumn = this.cellWidth / this.together;
    const step = Math.max(1, tickStep(64 / perColumn));
    for (let column = Math.ceil(this.from / step) * step; column < this.from + this.shown * this.together && column < grid.columns; column += step) {
      const x = LEFT + (column - this.from) * perColumn;
      const middle = grid.kind === "step" ? x + perColumn / 2 : x;
      const text = grid.kind === "step" ? String(grid.steps[column].number) : moment(column * grid.column, grid.column);
      if (middle + context.measureText(text).width > this.width) break;
      context.textAlign = grid.kind === "step" ? "center" : "left";
      context.fillText(text, middle, TOP + this.plotHeight + 8);
      context.fillRect(middle, TOP + this.plotHeight + 1, 1, 4);
    }
    context.textAlign = "left";
    context.fillText(grid.kind === "step" ? "step" : "", 8, TOP + this.plotHeight + 8);
  }

  /** Cells outside of the selection fade. */
  #selection({ grid, selection, style }) {
    if (!selection) return;
    const { context } = this;
    const [first, last] = selection;
    for (let at = 0; at < this.shown; at++) {
      const column = this.from + at * this.together;
      const end = Math.min(column + this.together, grid.columns);
      const low = Math.max(first, column * grid.rows);
      const high = Math.min(last, end * grid.rows - 1);
      const x = LEFT + at * this.cellWidth;
      if (low > high) {
        this.#fade(style, x, TOP, this.plotHeight);
        continue;
      }
      const whole = high - low >= grid.rows || high % grid.rows < low % grid.rows;
      const [from, to] = whole ? [0, grid.rows - 1] : [low % grid.rows, high % grid.rows];
      const y = TOP + this.plotHeight - (to + 1) * this.cellHeight;
      const height = (to - from + 1) * this.cellHeight;
      this.#fade(style, x, TOP, y - TOP);
      this.#fade(style, x, y + height, TOP + this.plotHeight - y - height);
      context.fillStyle = style.accent;
      context.fillRect(x - 1, y - 1, this.cellWidth + 1, 2);
      context.fillRect(x - 1, y + height - 1, this.cellWidth + 1, 2);
      if (low === first) context.fillRect(x - 1, y, 2, height);
      if (high === last) context.fillRect(x + this.cellWidth - 1, y, 2, height);
    }
  }

  #fade({ paper }, x, y, height) {
    this.context.fillStyle = paper;
    this.context.globalAlpha = 0.6;
    this.context.fillRect(x, y, this.cellWidth, height);
    this.context.globalAlpha = 1;
  }
}

function round(value) {
  return value >= 10 ? Math.round(value) : value;
}
