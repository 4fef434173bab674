// The part of a graph that is in sight: where its rows and frames lie in the picture, in px. Each picture extends it.

import { NARROW } from "./bars.js";

const SPARE_ROWS = 3; // callers that stay in sight above a zoomed frame

export class Viewport {
  constructor(/** @type {number} */ rowHeight) {
    this.rowHeight = rowHeight;
    /** @type {import("./model.js").Model} */
    this.model = /** @type {any} */ (null);
    /** @type {import("./search.js").Found | null} */
    this.found = null;
    this.zoom = 0;
    this.current = 0; // of the keyboard
    this.hovered = -1;
    this.down = false; // callees below their callers
    this.scroll = 0; // from the top of all rows
    this.window = { left: 0, width: 1 }; // of the graph, in units of the metric
    this.pixels = 0;
    this.height = 0;
  }

  /** Draws the visible rows; each picture has its own way. */
  draw() {}

  get whole() {
    return Math.max(this.model.width[0], 1);
  }

  /** The height of all rows. */
  get content() {
    return this.model.levels * this.rowHeight;
  }

  /** Where a row is, counted from the top. */
  slot(/** @type {number} */ row) {
    return this.down ? row : this.model.levels - 1 - row;
  }

  /** y of a row in the picture. A flame that is lower than its window stands on the ground. */
  top(/** @type {number} */ row) {
    return this.slot(row) * this.rowHeight - this.scroll + (this.down ? 0 : Math.max(0, this.height - this.content));
  }

  /** Where a node begins and ends. */
  span(/** @type {number} */ node) {
    const scale = this.pixels / this.window.width;
    const from = (this.model.left[node] - this.window.left) * scale;
    return [from, from + this.model.width[node] * scale];
  }

  /** The next frame in the row that is wide enough to see, or -1. */
  beside(/** @type {number} */ node, /** @type {1 | -1} */ step) {
    const { model } = this;
    const row = model.row(node);
    for (let place = model.position(node) + step; place >= model.starts[row] && place < model.starts[row + 1]; place += step) {
      const [from, to] = this.span(model.rows[place]);
      if (to <= 0 || from >= this.pixels) return -1;
      if (to - from >= NARROW) return model.rows[place];
    }
    return -1;
  }

  /** Whether a node is among the callers of the zoomed one. */
  isAbove(/** @type {number} */ node) {
    return this.zoom > 0 && node < this.zoom && this.model.after[node] > this.zoom;
  }

  scrollTo(/** @type {number} */ top) {
    this.scroll = this.boundScroll(top);
    this.draw();
  }

  boundScroll(/** @type {number} */ top) {
    return Math.min(Math.max(0, top), Math.max(0, this.content - this.height));
  }

  /** Scroll at which a zoomed node stands at the edge that its callees grow from, some callers in sight. */
  scrollFor(/** @type {number} */ node) {
    const { model, rowHeight } = this;
    const slot = this.slot(model.row(node));
    if (model.lift > 0 && node === 0) return slot * rowHeight - Math.round(this.height * 0.4);
    const spare = Math.min(SPARE_ROWS, model.row(node)) * rowHeight;
    return this.down ? slot * rowHeight - spare : (slot + 1) * rowHeight + spare - this.height;
  }

  /** Scrolls to a node where its row is out of sight. */
  reveal(/** @type {number} */ node) {
    const top = this.top(this.model.row(node));
    if (top < 0) this.scrollTo(this.scroll + top);
    else if (top + this.rowHeight > this.height) this.scrollTo(this.scroll + top + this.rowHeight - this.height);
  }

  /** Calls `each` with every row in sight, and its y. */
  rowsInSight(/** @type {(row: number, y: number) => void} */ each) {
    for (let row = 0; row < this.model.levels; row++) {
      const y = this.top(row);
      if (y + this.rowHeight > 0 && y < this.height) each(row, y);
    }
  }
}
