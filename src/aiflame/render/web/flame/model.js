// A flame graph as it is shown: nodes as `arrange` laid them out, and the frames they have.
// Nodes are numbers in depth-first order: the subtree of `node` is [node, after[node]). In a sandwich callers have depths below 0.

/**
 * Frames of a profile, a column for each of their properties. Row 0 is the root. `file` and `module` are rows of `files`, `modules`.
 * @typedef {{name: string[], full: string[], kind: ArrayLike<number>, file: ArrayLike<number>, module: ArrayLike<number>,
 *   line: ArrayLike<number>, files: string[], modules: string[], approximate?: ArrayLike<number>, fold?: ArrayLike<number>}} Frames
 */

/**
 * Columns of values are [the metric, launches, the base]; a graph that is compared with nothing has no base.
 * `limits`: sums over the kernels in and below a node: time with a known limit, time at the limit, and its part that
 * memory limits. `ofTime`: the metric is the time itself.
 * @typedef {{counted: Float64Array, limit: Float64Array, memory: Float64Array, ofTime: boolean}} Limits
 * @typedef {{own: Float64Array[], total: Float64Array[], upper?: number, metric: {unit: string}, whole: number[], limits?: Limits}} Measured
 * @typedef {import("./arrange.js").Arranged & Measured} Graph
 */

/** Where the frame columns of a block are kept. */
export function framesOf(/** @type {Record<string, any>} */ columns) {
  const named = ["name", "full", "kind", "file", "module", "line", "approximate"].map((name) => [name, columns[`frame.${name}`]]);
  return /** @type {Frames} */ ({ ...Object.fromEntries(named), files: columns.file, modules: columns.module });
}

export class Model {
  /**
   * @param {Graph} graph
   * @param {Frames} frames
   * @param {Record<number, string>} labels of kinds
   */
  constructor(graph, frames, labels) {
    const { count, depth, frame, parent, after, left, own, total, rows, starts } = graph;
    Object.assign(this, graph); // with the worker's facts on the whole graph
    this.count = count;
    this.depth = depth;
    this.frame = frame;
    this.parent = parent;
    this.after = after;
    this.left = left;
    this.own = own;
    this.total = total;
    this.rows = rows;
    this.starts = starts;
    this.metric = graph.metric;
    this.whole = graph.whole; // of each column, before anything was left out
    this.frames = frames;
    this.labels = labels;
    this.differential = total.length > 2;
    this.against = false; // compared with the rest of the same run
    this.byBase = false;
    this.width = total[0];
    this.launches = total[1];
    /** @type {Limits | null} */
    this.limits = graph.limits ?? null; // where frames are coloured by them
    this.base = total[2] ?? null;
    this.lift = -(depth[rows[0]] ?? 0); // levels of callers in a sandwich
    this.levels = starts.length - 1;
    this.upper = graph.upper ?? count;
  }

  /** Names of both sides of a differential graph. */
  get sides() {
    return this.against ? ["the rest", "this"] : ["before", "now"];
  }

  /** Widths are those of the base where the view asks for it. */
  useBase(/** @type {boolean} */ on) {
    this.byBase = on && this.differential;
    this.width = this.byBase ? this.base : this.total[0];
  }

  row(/** @type {number} */ node) {
    return this.depth[node] + this.lift;
  }

  name(/** @type {number} */ node) {
    return this.frames.name[this.frame[node]] || "[no name]";
  }

  full(/** @type {number} */ node) {
    return this.frames.full[this.frame[node]] || this.name(node);
  }

  kind(/** @type {number} */ node) {
    return this.frames.kind[this.frame[node]];
  }

  kindLabel(/** @type {number} */ node) {
    return this.labels[this.kind(node)] ?? "";
  }

  place(/** @type {number} */ node) {
    const { files, file, line } = this.frames;
    const frame = this.frame[node];
    const found = files[file[frame]] ?? "";
    return found && line[frame] ? `${found}:${line[frame]}` : found;
  }

  module(/** @type {number} */ node) {
    return this.frames.modules[this.frames.module[this.frame[node]]] ?? "";
  }

  /** Nodes from the outermost, without the root; of a sandwich's callers down to its middle. */
  stack(/** @type {number} */ node) {
    const nodes = [];
    for (let at = node; at > 0; at = this.parent[at]) nodes.push(at);
    if (this.upper < this.count || nodes.length === 0) nodes.push(0);
    return this.depth[node] < 0 ? nodes : nodes.reverse();
  }

  right(/** @type {number} */ node) {
    return this.left[node] + this.width[node];
  }

  /**
   * Where in `rows` the first node of a row from `from` on ends right of `x`.
   * @param {number} row
   * @param {number} x
   */
  firstAt(row, x, from = this.starts[row]) {
    const end = this.starts[row + 1];
    let step = 1;
    let low = from;
    let high = from;
    while (high < end && this.right(this.rows[high]) <= x) {
      low = high + 1;
      high += step;
      step *= 2;
    }
    high = Math.min(high, end);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.right(this.rows[middle]) > x) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Where in its row a node stands: nodes of a row are in depth-first order. */
  position(/** @type {number} */ node) {
    const row = this.row(node);
    let low = this.starts[row];
    let high = this.starts[row + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle] < node) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** In a sandwich the root's children are both callees and callers: `up` asks for those. */
  widestChild(/** @type {number} */ node, up = this.depth[node] < 0) {
    let best = -1;
    for (let child = node + 1; child < this.after[node]; child = this.after[child]) {
      if (this.depth[child] < 0 === up && this.width[child] > 0 && (best < 0 || this.width[child] > this.width[best])) best = child;
    }
    return best;
  }

  /** Whether a frame was reached by scanning the stack, where that is known. */
  approximate(/** @type {number} */ node) {
    return Boolean(this.frames.approximate?.[this.frame[node]]);
  }

  /** The sum of the measurement, in units of the widths: shares are parts of it. */
  get all() {
    return this.whole[this.byBase ? 2 : 0];
  }

  /** The nodes' own values, as the widths are. */
  get ownWidth() {
    return this.own[this.byBase ? 2 : 0];
  }

  /**
   * How a node changed: from -steps.length (gone) over 0 to steps.length (new).
   * @param {number} node
   * @param {number[]} steps
   */
  change(node, steps) {
    const now = this.total[0][node];
    const before = this.base[node];
    const part = (now - before) / (Math.max(now, before) || 1);
    const depth = steps.filter((least) => Math.abs(part) >= least).length;
    return part < 0 ? -depth : depth;
  }
}
