// The tree that is shown: arrays of nodes as the worker laid them out, and the frames they have.
// Nodes are numbers in depth-first order: the subtree of `node` is [node, after[node]). In a sandwich callers have depths below 0.

export class Model {
  // From the answer:
  /** @type {Record<string, any>} */
  metric;
  /** @type {number[]} */
  whole;
  /** @type {number} */
  count;
  /** @type {Float64Array[]} */
  total;
  /** @type {Float64Array} */
  left;
  /** @type {Float64Array} */
  own;
  /** @type {Int32Array} */
  depth;
  /** @type {Int32Array} */
  frame;
  /** @type {Int32Array} */
  parent;
  /** @type {Int32Array} */
  after;
  /** @type {Int32Array} */
  rows;
  /** @type {Int32Array} */
  starts;

  constructor(answer, frames, labels) {
    Object.assign(this, answer);
    this.frames = frames;
    this.labels = labels;
    this.differential = answer.total.length > 2;
    this.against = false; // compared with the rest of the same run
    this.width = answer.total[0];
    this.launches = answer.total[1];
    this.base = answer.total[2] ?? null;
    this.lift = -(this.depth[this.rows[0]] ?? 0); // levels of callers in a sandwich
    this.levels = this.starts.length - 1;
    this.upper = answer.upper ?? this.count;
  }

  /** What both are called in a differential graph. */
  get sides() {
    return this.against ? ["the rest", "this"] : ["before", "now"];
  }

  /** Widths are those of the base where it was asked for. */
  useBase(on) {
    this.byBase = on && this.differential;
    this.width = this.byBase ? this.base : this.total[0];
  }

  row(node) {
    return this.depth[node] + this.lift;
  }

  name(node) {
    return this.frames.name[this.frame[node]] || "[no name]";
  }

  full(node) {
    return this.frames.full[this.frame[node]] || this.name(node);
  }

  kind(node) {
    return this.frames.kind[this.frame[node]];
  }

  kindLabel(node) {
    return this.labels[this.kind(node)] ?? "";
  }

  place(node) {
    const { files, file, line } = this.frames;
    const frame = this.frame[node];
    const found = files[file[frame]] ?? "";
    return found && line[frame] ? `${found}:${line[frame]}` : found;
  }

  module(node) {
    return this.frames.modules[this.frames.module[this.frame[node]]] ?? "";
  }

  /** Nodes from the outermost, without the root; of a sandwich's callers down to its middle. */
  stack(node) {
    const nodes = [];
    for (let at = node; at > 0; at = this.parent[at]) nodes.push(at);
    if (this.upper < this.count || nodes.length === 0) nodes.push(0);
    return this.depth[node] < 0 ? nodes : nodes.reverse();
  }

  /** Frames on the way from the root, by which the same node is found in another tree. */
  path(node) {
    const frames = [];
    for (let at = node; at > 0; at = this.parent[at]) frames.push(this.frame[at]);
    return frames.reverse();
  }

  /** The node at the end of a path, or of as much of it as there is. */
  follow(path) {
    let node = 0;
    for (const frame of path) {
      let child = node + 1;
      while (child < this.after[node] && this.frame[child] !== frame) child = this.after[child];
      if (child >= this.after[node]) return node;
      node = child;
    }
    return node;
  }

  right(node) {
    return this.left[node] + this.width[node];
  }

  /** Where in `rows` the first node of a row from `from` on ends right of `x`. */
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

  /** The node of a row at `x`, or -1. */
  at(row, x) {
    if (row < 0 || row >= this.levels) return -1;
    const place = this.firstAt(row, x);
    if (place >= this.starts[row + 1]) return -1;
    const node = this.rows[place];
    return this.left[node] <= x && this.width[node] > 0 ? node : -1;
  }

  /** Where in its row a node stands: nodes of a row are in depth-first order. */
  position(node) {
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
  widestChild(node, up = this.depth[node] < 0) {
    let best = -1;
    for (let child = node + 1; child < this.after[node]; child = this.after[child]) {
      if (this.depth[child] < 0 === up && this.width[child] > 0 && (best < 0 || this.width[child] > this.width[best])) best = child;
    }
    return best;
  }

  /** For each kind what is in or below its frames, and in them alone. */
  kindShares() {
    const inclusive = new Float64Array(32);
    const own = new Float64Array(32);
    const above = new Uint32Array(this.count); // a bit for each kind that encloses the node
    const { kind } = this.frames;
    const values = this.own[this.byBase ? 2 : 0];
    for (let node = 0; node < this.upper; node++) {
      const its = kind[this.frame[node]];
      if (node > 0) {
        const parent = this.parent[node];
        above[node] = above[parent] | (1 << kind[this.frame[parent]]);
      }
      if (!(above[node] & (1 << its))) inclusive[its] += this.width[node];
      own[its] += values[node];
    }
    return { inclusive, own };
  }

  /** How a node changed: from -steps.length (gone) over 0 to steps.length (new). */
  change(node, steps) {
    const now = this.total[0][node];
    const before = this.base[node];
    const part = (now - before) / (Math.max(now, before) || 1);
    const depth = steps.filter((least) => Math.abs(part) >= least).length;
    return part < 0 ? -depth : depth;
  }
}
