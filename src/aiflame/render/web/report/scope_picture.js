// Draws the heat map: cells, what stands above each column, axes, the selection.

import { amount } from "../text.js";
import { moment, tickStep } from "./time_text.js";

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const LEFT = 64;
const RIGHT = 12;
const TOP = 62;
const BOTTOM = 24;
const NARROWEST = 4; // px of a column, before neighbours become one
const WIDEST = 56;
const TALLEST = 30;

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
    const end = Math.min(column + this.together, grid.columns);
    let sum = 0;
    for (let at = column; at < end; at++) sum += grid.values[at * grid.rows + row];
    return sum / (end - column);
  }

  /** @param scene {grid, tone(value), colors, style, selection: [first, last] of cells, cursor, hovered, unit, aboveLabel} */
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
        const value = this.value(grid, this.from + at * this.together, row);
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
    const top = Math.max(...values, 1e-9);
    const [base, high] = [TOP - 8, TOP - 26];
    const y = (value) => base - (value / top) * high;
    context.fillStyle = style.line;
    context.fillRect(LEFT, base, this.plotWidth, 1);
    context.strokeStyle = context.fillStyle = style.accent;
    if (grid.kind === "step") {
      context.lineWidth = 1.5;
      context.beginPath();
      values.forEach((value, at) => context.lineTo(LEFT + (at + 0.5) * this.cellWidth, y(value)));
      context.stroke();
      if (this.cellWidth > 6) for (const [at, value] of values.entries()) context.fillRect(LEFT + (at + 0.5) * this.cellWidth - 1.5, y(value) - 1.5, 3, 3);
    } else {
      context.globalAlpha = 0.55;
      for (const [at, value] of values.entries()) context.fillRect(LEFT + at * this.cellWidth, y(value), Math.max(1, this.cellWidth - 1), base - y(value));
      context.globalAlpha = 1;
    }
    context.fillStyle = style.soft;
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.fillText(`${aboveLabel}, up to ${amount(round(top), unit)}`, LEFT, 12);
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
      context.textAlign = grid.kind === "step" ? "center" : "left";
      context.fillText(text, middle, TOP + this.plotHeight + 8);
      context.fillRect(middle, TOP + this.plotHeight + 1, 1, 4);
    }
    context.textAlign = "left";
    context.fillText(grid.kind === "step" ? "step" : "", 8, TOP + this.plotHeight + 8);
  }

  #selection({ grid, selection, style }) {
    if (!selection) return;
    const { context } = this;
    const [first, last] = selection;
    context.fillStyle = style.accent;
    for (let at = 0; at < this.shown; at++) {
      const column = this.from + at * this.together;
      const end = Math.min(column + this.together, grid.columns);
      const low = Math.max(first, column * grid.rows);
      const high = Math.min(last, end * grid.rows - 1);
      if (low > high) continue;
      const whole = high - low >= grid.rows;
      const from = whole ? 0 : low % grid.rows;
      const to = whole || high % grid.rows < from ? grid.rows - 1 : high % grid.rows;
      const [x, y] = [LEFT + at * this.cellWidth, TOP + this.plotHeight - (to + 1) * this.cellHeight];
      const height = (to - from + 1) * this.cellHeight;
      context.globalAlpha = 0.28;
      context.fillRect(x, y, this.cellWidth, height);
      context.globalAlpha = 1;
      const [leftEdge, rightEdge] = [low === first || at === 0, high === last || at === this.shown - 1];
      context.fillRect(x, y - 1, this.cellWidth, 2);
      context.fillRect(x, y + height - 1, this.cellWidth, 2);
      if (leftEdge) context.fillRect(x - 1, y, 2, height);
      if (rightEdge) context.fillRect(x + this.cellWidth - 1, y, 2, height);
    }
  }
}

function round(value) {
  return value >= 10 ? Math.round(value) : value;
}
