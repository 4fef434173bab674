// Draws the rows that are in view; narrow neighbours become one bar, so that the outline stays true at any width.

import { clip, percent, Ruler } from "../text.js";

const SVG = "http://www.w3.org/2000/svg";
const XHTML = "http://www.w3.org/1999/xhtml";

export const ROW = 17;
const BAR = 16;
const LABEL_FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const NARROW = 1; // px
const LABELLED = 24; // px
const THUMB = 7; // px

export class Chart {
  constructor(model, host) {
    this.model = model;
    this.ruler = new Ruler(LABEL_FONT);
    this.zoom = 0;
    this.focus = 0;
    this.inverted = false;
    this.scroll = 0; // px from the top of the whole picture
    this.found = null;
    this.dimmed = null;
    this.drawn = new Map(); // row → its <g>
    this.view = element("svg", { class: "af-frames", role: "tree", "aria-label": "Flame graph" });
    this.layer = element("g", {});
    this.thumb = element("rect", { class: "af-thumb", width: THUMB, rx: THUMB / 2 });
    // Empty space takes the wheel too.
    const ground = element("path", { d: "M0 0h9999v9999H0z", fill: "none", "pointer-events": "all" });
    this.view.append(ground, this.layer, this.thumb);
    host.append(this.view);
  }

  get height() {
    return this.model.rows.length * ROW;
  }

  resize(x, y, width, height) {
    this.viewHeight = Math.max(height, ROW);
    this.thumbAt = Math.max(width, 50) - THUMB;
    this.width = this.height > this.viewHeight ? this.thumbAt - THUMB : this.thumbAt + THUMB;
    for (const [name, value] of Object.entries({ x, y, width: this.thumbAt + THUMB, height: this.viewHeight })) {
      this.view.setAttribute(name, value);
    }
    this.redraw();
  }

  // Draws everything anew: after a zoom, a search, a new size.
  redraw() {
    const hadFocus = this.layer.contains(document.activeElement);
    this.layer.replaceChildren();
    this.drawn.clear();
    this.scrollTo(this.scroll);
    if (hadFocus) this.focusOn(this.focus);
  }

  scrollTo(top) {
    this.scroll = Math.min(Math.max(0, top), Math.max(0, this.height - this.viewHeight));
    const firstSlot = Math.floor(this.scroll / ROW);
    const lastSlot = Math.min(Math.ceil((this.scroll + this.viewHeight) / ROW), this.model.rows.length) - 1;
    const wanted = new Set();
    for (let slot = firstSlot; slot <= lastSlot; slot++) wanted.add(this.#slot(slot));
    for (const [row, group] of this.drawn) {
      if (wanted.has(row)) continue;
      group.remove();
      this.drawn.delete(row);
    }
    for (const row of wanted) {
      if (!this.drawn.has(row)) this.drawn.set(row, this.layer.appendChild(this.#drawRow(row)));
      this.drawn.get(row).setAttribute("transform", `translate(0,${this.#slot(row) * ROW - this.scroll})`);
    }
    this.#placeThumb();
  }

  // Brings the zoomed node to the edge that its callees grow from.
  scrollToZoom() {
    const slot = this.#slot(this.model.row[this.zoom]);
    const spare = Math.min(3, this.model.row[this.zoom]) * ROW;
    this.scrollTo(this.inverted ? slot * ROW - spare : (slot + 1) * ROW + spare - this.viewHeight);
  }

  reveal(node) {
    const top = this.#slot(this.model.row[node]) * ROW;
    if (top < this.scroll) this.scrollTo(top);
    else if (top + ROW > this.scroll + this.viewHeight) this.scrollTo(top + ROW - this.viewHeight);
  }

  focusOn(node) {
    this.reveal(node);
    this.layer.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
    this.focus = node;
    const bar = this.barOf(node);
    bar?.setAttribute("tabindex", "0");
    bar?.focus({ preventScroll: true });
  }

  barOf(node) {
    return this.drawn.get(this.model.row[node])?.querySelector(`[data-node="${node}"]`);
  }

  // The next frame in the row that is wide enough to see, or -1.
  beside(node, step) {
    const row = this.model.rows[this.model.row[node]];
    for (let at = this.model.position[node] + step; at >= 0 && at < row.length; at += step) {
      const [left, right] = this.#span(row[at]);
      if (right <= 0 || left >= this.width) return -1;
      if (right - left >= NARROW) return row[at];
    }
    return -1;
  }

  inView(node) {
    const [left, right] = this.#span(node);
    return right > 0 && left < this.width;
  }

  #slot(row) {
    return this.inverted ? row : this.model.rows.length - 1 - row;
  }

  #span(node) {
    const scale = this.width / Math.max(this.model.total[this.zoom], 1);
    const left = (this.model.x[node] - this.model.x[this.zoom]) * scale;
    return [left, left + this.model.total[node] * scale];
  }

  #drawRow(row) {
    const group = element("g", {});
    const { model } = this;
    const nodes = model.rows[row];
    let run = null; // neighbours too narrow to draw each
    const endRun = () => {
      if (run) group.append(this.#bar(run.node, run.left, run.right, run.count));
      run = null;
    };
    for (let at = model.firstAt(nodes, model.x[this.zoom]); at < nodes.length; at++) {
      const [left, right] = this.#span(nodes[at]);
      if (left >= this.width) break;
      if (right - left >= NARROW) {
        endRun();
        group.append(this.#bar(nodes[at], left, right, 1), ...this.#label(nodes[at], left, right));
      } else if (run && left - run.right < 0.5 && !this.#differs(run, nodes[at])) {
        run.right = right;
        run.count++;
        if (this.found?.[nodes[at]]) run.node = nodes[at];
      } else {
        endRun();
        run = { node: nodes[at], left, right, count: 1 };
      }
    }
    endRun();
    return group;
  }

  // A run ends where its colour would mislead, but not before it is wide enough to be seen.
  #differs(run, node) {
    const wide = run.right - run.left;
    const found = this.found !== null && this.found[run.node] !== this.found[node];
    return (wide >= NARROW && found) || (wide >= 3 * NARROW && this.model.group[run.node] !== this.model.group[node]);
  }

  #bar(node, left, right, count) {
    const from = Math.max(left, 0);
    const wide = Math.min(right, this.width) - from;
    const classes = [`s${this.model.css[node]}`];
    if (this.found?.[node]) classes.push("match");
    if (this.dimmed?.[node]) classes.push("dim");
    if (this.model.row[node] < this.model.row[this.zoom]) classes.push("above");
    if (count > 1) classes.push("many");
    const bar = element("rect", {
      class: classes.join(" "),
      x: from.toFixed(2),
      width: Math.max(wide > 2 ? wide - 0.6 : wide, 0.4).toFixed(2),
      height: BAR,
      "data-node": node,
    });
    if (count > 1) bar.dataset.count = count;
    if (wide >= 3) {
      bar.setAttribute("rx", 1.5);
      bar.setAttribute("role", "treeitem");
      bar.setAttribute("aria-level", this.model.row[node] + 1);
      bar.setAttribute("aria-label", `${clip(this.model.name(node), 200)}, ${percent(this.model.total[node], this.model.whole)}`);
      bar.setAttribute("tabindex", node === this.focus ? 0 : -1);
    }
    return bar;
  }

  #label(node, left, right) {
    const from = Math.max(left, 0);
    const wide = Math.min(right, this.width) - from;
    const text = wide < LABELLED ? "" : this.ruler.fit(this.model.name(node).slice(0, 1000), wide - 8);
    if (!text) return [];
    const faded = this.dimmed?.[node] || this.model.row[node] < this.model.row[this.zoom];
    const label = element("text", { class: faded ? "faded" : "", x: (from + 4).toFixed(2), y: 12 });
    label.textContent = text;
    return [label];
  }

  #placeThumb() {
    const all = Math.max(this.height, 1);
    this.thumb.setAttribute("visibility", all > this.viewHeight ? "visible" : "hidden");
    this.thumb.setAttribute("x", this.thumbAt);
    this.thumb.setAttribute("height", Math.max(24, (this.viewHeight * this.viewHeight) / all));
    this.thumb.setAttribute("y", (this.scroll / all) * this.viewHeight);
  }
}

export function element(name, attributes, ...children) {
  return dress(document.createElementNS(SVG, name), attributes, children);
}

export function html(name, attributes, ...children) {
  return dress(document.createElementNS(XHTML, name), attributes, children);
}

function dress(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
