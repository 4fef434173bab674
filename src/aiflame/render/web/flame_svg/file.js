// The tree in the file, and the flame graphs from it: with hidden kinds, an order of siblings, and widths of the profile or its baseline. The address
// names nodes as the file numbers them: a graph has numbers of its own.

import { arrange } from "../flame/arrange.js";
import { framesOf, Model } from "../flame/model.js";

/** @typedef {import("../flame/arrange.js").Tree} Tree */

const LIMITS = 3; // columns

export class FlameFile {
  /** @param {{head: any, columns: Record<string, any>}} block */
  constructor({ head, columns }) {
    this.head = head;
    this.frames = framesOf(columns);
    this.frames.name[0] = "all";
    this.rank = Int32Array.from(this.frames.name.keys()); // frames lie in the order that siblings take
    this.folded = this.#columns(columns, "folded");
    const own = this.#columns(columns, "own");
    const frame = columns["node.frame"];
    /** @type {Tree} */
    this.tree = {
      count: frame.length,
      parent: parents(columns["node.depth"]),
      frame,
      columns: own.map((values, column) => values.map((/** @type {number} */ value, /** @type {number} */ node) => value + this.folded[column][node])),
    };
  }

  /** The columns of a tree: the metric, launches (zeros: the file has none), the base, or those of limits. */
  #columns(/** @type {Record<string, any>} */ columns, /** @type {string} */ what) {
    const count = this.head.metrics.length + (this.head.limits ? LIMITS : 0);
    const [first, ...others] = Array.from({ length: count }, (_, at) => Float64Array.from(columns[`node.${what}.${at}`]));
    return [first, new Float64Array(first.length), ...others];
  }

  /**
   * A graph, and which node of it is which of the file: `nodeOf` is the nearest one at or below in the stack that is drawn.
   * @param {{byBase?: boolean, byWidth?: boolean, hidden?: number[]}} how
   */
  graph({ byBase = false, byWidth = false, hidden = [] }) {
    const { frames, head } = this;
    const { tree, folded, place } = hidden.length ? without(this, (frame) => hidden.includes(frames.kind[frame])) : { ...this, place: null };
    const { placed, ...arranged } = arrange(tree, { order: byWidth ? "width" : "name", widths: byBase ? 2 : 0, rank: this.rank });
    // Folded callees count in a frame, but are not its own.
    arranged.own.forEach((own, column) => {
      for (let node = 0; node < tree.count; node++) if (node === 0 || placed[node] > 0) own[placed[node]] -= folded[column][node];
    });
    const whole = arranged.total.map((total) => total[0]);
    const shown = head.limits ? withLimits(arranged) : arranged;
    const model = new Model({ ...shown, placed, metric: head.metrics[0], whole }, frames, head.kinds);
    model.useBase(byBase);
    const nodeOf = (/** @type {number} */ wanted) => {
      let node = place ? place[wanted] : wanted;
      while (node > 0 && placed[node] === 0) node = tree.parent[node];
      return placed[node];
    };
    const inFile = new Int32Array(model.count);
    for (let node = this.tree.count - 1; node > 0; node--) inFile[placed[place ? place[node] : node]] = node;
    inFile[0] = 0;
    return { model, nodeOf, inFile };
  }
}

/**
 * A layout with the columns of limits apart from that of the metric, which is time.
 * @param {import("../flame/arrange.js").Arranged | Omit<import("../flame/arrange.js").Arranged, "placed">} arranged
 */
function withLimits(arranged) {
  const [counted, limit, memory] = arranged.total.slice(2);
  return { ...arranged, own: arranged.own.slice(0, 2), total: arranged.total.slice(0, 2), limits: { counted, limit, memory, ofTime: true } };
}

function parents(/** @type {ArrayLike<number>} */ depth) {
  const parent = new Int32Array(depth.length).fill(-1);
  const path = [0];
  for (let node = 1; node < depth.length; node++) {
    parent[node] = path[depth[node] - 1];
    path[depth[node]] = node;
  }
  return parent;
}

/**
 * Without some frames: their values and callees go to their callers, and equal siblings become one. `place` has each old node's new number.
 * @param {FlameFile} file
 * @param {(frame: number) => boolean} isHidden
 */
function without({ tree, folded, frames }, isHidden) {
  const hidden = Uint8Array.from(frames.name, (_, frame) => Number(isHidden(frame)));
  const place = new Int32Array(tree.count);
  const parent = new Int32Array(tree.count).fill(-1);
  const frame = new Int32Array(tree.count);
  const slots = new Int32Array(2 ** Math.ceil(Math.log2(tree.count) + 1)); // a hash table of the new nodes; 0: free
  let count = 1;
  for (let node = 1; node < tree.count; node++) {
    const above = place[tree.parent[node]];
    const its = tree.frame[node];
    if (hidden[its]) {
      place[node] = above;
      continue;
    }
    const hash = Math.imul(above, 0x9e3779b1) ^ Math.imul(its, 0x85ebca6b);
    let slot = (hash ^ (hash >>> 15)) & (slots.length - 1);
    while (slots[slot] > 0 && (parent[slots[slot]] !== above || frame[slots[slot]] !== its)) slot = (slot + 1) & (slots.length - 1);
    if (slots[slot] === 0) {
      slots[slot] = count;
      parent[count] = above;
      frame[count++] = its;
    }
    place[node] = slots[slot];
  }
  const moved = (/** @type {Float64Array} */ values) => {
    const sums = new Float64Array(count);
    for (let node = 0; node < tree.count; node++) sums[place[node]] += values[node];
    return sums;
  };
  return { tree: { count, parent, frame, columns: tree.columns.map(moved) }, folded: folded.map(moved), place };
}
