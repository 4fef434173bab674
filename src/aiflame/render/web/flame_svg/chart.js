// Draws the rows that are in sight, each frame an element: a keyboard and a screen reader reach it.

import { bars, labelFor } from "../flame/bars.js";
import { FrameColors } from "../flame/colors.js";
import { Viewport } from "../flame/viewport.js";
import { clip, percent, Ruler } from "../text.js";

const SVG = "http://www.w3.org/2000/svg";
const XHTML = "http://www.w3.org/1999/xhtml";

export const ROW = 17;
const BAR = 16;
const LABEL_FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const THUMB = 7; // px

export class Chart extends Viewport {
  /**
   * @param {Element} host
   * @param {number[]} steps of changes
   */
  constructor(host, steps) {
    super(ROW);
    this.colors = new FrameColors(steps);
    this.ruler = new Ruler(LABEL_FONT);
    /** @type {import("../flame/search.js").Found | null} */
    this.lit = null; // others are dim
    this.drawn = new Map(); // row → its <g>
    this.view = element("svg", { class: "af-frames", role: "tree", "aria-label": "Flame graph" });
    this.layer = element("g", {});
    this.thumb = element("rect", { class: "af-thumb", width: THUMB, rx: THUMB / 2 });
    // Empty space takes the wheel too.
    const ground = element("path", { d: "M0 0h9999v9999H0z", fill: "none", "pointer-events": "all" });
    this.view.append(ground, this.layer, this.thumb);
    host.append(this.view);
  }

  /**
   * @param {number} x
   * @param {number} y
   * @param {number} width
   * @param {number} height
   */
  resize(x, y, width, height) {
    const room = Math.max(height, ROW);
    this.height = Math.min(room, this.content); // a low graph stands at the top of its room
    this.thumbAt = Math.max(width, 50) - THUMB;
    this.pixels = this.content > room ? this.thumbAt - THUMB : this.thumbAt + THUMB;
    for (const [name, value] of Object.entries({ x, y, width: this.thumbAt + THUMB, height: room })) {
      this.view.setAttribute(name, String(value));
    }
    this.redraw();
  }

  /** Zooms to a node, or to the root if the node has no width. */
  zoomOn(/** @type {number} */ node) {
    const { left, width } = this.model;
    this.zoom = width[node] > 0 ? node : 0;
    this.window = { left: left[this.zoom], width: Math.max(width[this.zoom], 1) };
  }

  /** Draws everything anew: after a zoom, a search, a new size. */
  redraw() {
    const hadFocus = this.layer.contains(document.activeElement);
    this.layer.replaceChildren();
    this.drawn.clear();
    this.scrollTo(this.scroll);
    if (hadFocus) this.focusOn(this.current);
  }

  /** Draws the rows that came into sight. */
  draw() {
    const wanted = new Map();
    this.rowsInSight((row, y) => wanted.set(row, y));
    for (const [row, group] of this.drawn) {
      if (wanted.has(row)) continue;
      group.remove();
      this.drawn.delete(row);
    }
    for (const [row, y] of wanted) {
      if (!this.drawn.has(row)) this.drawn.set(row, this.layer.appendChild(this.#row(row)));
      this.drawn.get(row).setAttribute("transform", `translate(0,${y})`);
    }
    this.#placeThumb();
  }

  focusOn(/** @type {number} */ node) {
    this.reveal(node);
    this.layer.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
    this.current = node;
    const bar = this.drawn.get(this.model.row(node))?.querySelector(`[data-node="${node}"]`);
    bar?.setAttribute("tabindex", "0");
    bar?.focus({ preventScroll: true });
  }

  inView(/** @type {number} */ node) {
    const [left, right] = this.span(node);
    return right > 0 && left < this.pixels;
  }

  #row(/** @type {number} */ row) {
    const group = element("g", {});
    const { model, pixels } = this;
    bars(model, row, this.window, pixels, this.found, (node, from, to, many, match, place, end) => {
      const x = Math.max(from, 0);
      const wide = Math.min(to, pixels) - x;
      group.append(this.#bar(node, x, wide, match, many ? this.#count(place, end) : 1));
      const text = many ? "" : labelFor(model, node, wide, this.ruler);
      if (text) group.append(this.#label(node, x, text));
    });
    return group;
  }

  /** How many frames a bar stands for. */
  #count(/** @type {number} */ place, /** @type {number} */ end) {
    const { model } = this;
    if (!model.differential) return end - place;
    return model.rows.subarray(place, end).reduce((sum, node) => sum + Number(model.width[node] > 0), 0);
  }

  /**
   * @param {number} node
   * @param {number} x
   * @param {number} wide
   * @param {boolean} match
   * @param {number} count
   */
  #bar(node, x, wide, match, count) {
    const { model } = this;
    const classes = [`s${this.colors.number(model, node)}`];
    if (match) classes.push("match");
    if (this.#dim(node)) classes.push("dim");
    if (this.isAbove(node)) classes.push("above");
    if (count > 1) classes.push("many");
    const bar = element("rect", {
      class: classes.join(" "),
      x: x.toFixed(2),
      width: Math.max(wide > 2 ? wide - 0.6 : wide, 0.4).toFixed(2),
      height: BAR,
      "data-node": node,
    });
    if (count > 1) bar.dataset.count = String(count);
    if (wide >= 3) {
      const label = `${clip(model.name(node), 200)}, ${percent(model.width[node], model.all)}`;
      const given = { rx: 1.5, role: "treeitem", "aria-level": model.row(node) + 1, "aria-label": label, tabindex: node === this.current ? 0 : -1 };
      for (const [name, value] of Object.entries(given)) bar.setAttribute(name, String(value));
    }
    return bar;
  }

  #label(/** @type {number} */ node, /** @type {number} */ x, /** @type {string} */ text) {
    const faded = this.#dim(node) || this.isAbove(node);
    return element("text", { class: faded ? "faded" : "", x: (x + 4).toFixed(2), y: 12 }, text);
  }

  #dim(/** @type {number} */ node) {
    return this.lit !== null && !this.lit.nodes[node];
  }

  #placeThumb() {
    const all = Math.max(this.content, 1);
    const { height } = this;
    const given = {
      visibility: all > height ? "visible" : "hidden",
      x: this.thumbAt,
      height: Math.max(24, (height * height) / all),
      y: (this.scroll / all) * height,
    };
    for (const [name, value] of Object.entries(given)) this.thumb.setAttribute(name, String(value));
  }
}

/**
 * @param {string} name
 * @param {Record<string, any>} attributes
 * @param {...(Node | string)} children
 * @returns {SVGElement}
 */
export function element(name, attributes, ...children) {
  return dress(document.createElementNS(SVG, name), attributes, children);
}

/**
 * @param {string} name
 * @param {Record<string, any>} attributes
 * @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
export function html(name, attributes, ...children) {
  return dress(document.createElementNS(XHTML, name), attributes, children);
}

/**
 * @param {any} node
 * @param {Record<string, any>} attributes
 * @param {(Node | string)[]} children
 */
function dress(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== false) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}
