// The tree, and how it is arranged: which kinds are hidden, how siblings are ordered, which metric gives the widths.
// Nodes are numbers in depth-first order: the subtree of `node` is [node, after[node]).

export class Model {
  constructor({ head, columns }) {
    this.head = head;
    this.frames = framesOf(columns);
    this.frame = columns["node.frame"];
    this.count = this.frame.length;
    this.own = head.metrics.map((_, metric) => columns[`node.own.${metric}`]);
    this.metric = 0;
    this.differential = head.diffSteps.length > 0;
    this.#connect(columns["node.depth"]);
    this.totals = this.own.map((own, metric) => this.#total(own, columns[`node.folded.${metric}`]));
    this.#findChildren();
    this.css = this.#classes();
    this.group = this.#groups();
    this.groups = this.#describeGroups();
    this.arrange({ metric: 0, byWidth: false, hidden: new Set() });
  }

  get total() {
    return this.totals[this.metric];
  }

  get whole() {
    return this.total[0];
  }

  name(node) {
    return this.frames.name[this.frame[node]] || (node === 0 ? "all" : "[no name]");
  }

  fullName(node) {
    return this.frames.full[this.frame[node]] || this.name(node);
  }

  place(node) {
    const frame = this.frame[node];
    const file = this.frames.files[this.frames.file[frame]];
    const line = this.frames.line[frame];
    return file && line ? `${file}:${line}` : file;
  }

  module(node) {
    return this.frames.modules[this.frames.module[this.frame[node]]];
  }

  kindLabel(node) {
    return this.head.kinds[this.frames.kind[this.frame[node]]] ?? "";
  }

  stack(node) {
    const names = [];
    for (let at = node; at >= 0; at = this.parent[at]) names.push(this.fullName(at));
    return names.reverse();
  }

  // Rows of the picture, x of every node in units of the metric.
  arrange({ metric, byWidth, hidden }) {
    this.metric = metric;
    const total = this.total;
    const children = byWidth ? this.#sortedChildren(total) : this.children;
    this.x = new Float64Array(this.count);
    for (let node = 0; node < this.count; node++) {
      let left = this.x[node];
      for (let at = this.firstChild[node]; at < this.firstChild[node + 1]; at++) {
        this.x[children[at]] = left;
        left += total[children[at]];
      }
    }
    this.row = new Int32Array(this.count).fill(-1);
    this.position = new Int32Array(this.count); // in its row
    this.rows = [[0]];
    this.row[0] = 0;
    for (let level = 0; this.rows[level].length > 0; level++) {
      const below = [];
      for (const node of this.rows[level]) this.#gather(node, children, hidden, level + 1, below);
      this.rows.push(below);
    }
    this.rows.pop();
  }

  // The nodes that stand on `node`: its children, or theirs where a child is hidden.
  #gather(node, children, hidden, level, below) {
    for (let at = this.firstChild[node]; at < this.firstChild[node + 1]; at++) {
      const child = children[at];
      if (this.total[child] <= 0) continue;
      if (hidden.has(this.frames.kind[this.frame[child]])) {
        this.#gather(child, children, hidden, level, below);
      } else {
        this.row[child] = level;
        this.position[child] = below.length;
        below.push(child);
      }
    }
  }

  // The nearest node at or below `node` in the stack that is drawn.
  shown(node) {
    while (node > 0 && this.row[node] < 0) node = this.parent[node];
    return node;
  }

  widestChild(node) {
    const row = this.rows[this.row[node] + 1] ?? [];
    let best = -1;
    for (let at = this.firstAt(row, this.x[node]); at < row.length; at++) {
      const child = row[at];
      if (this.x[child] >= this.x[node] + this.total[node]) break;
      if (child > node && child < this.after[node] && (best < 0 || this.total[child] > this.total[best])) best = child;
    }
    return best;
  }

  // Where in a row the first node ends right of `x`.
  firstAt(row, x) {
    let low = 0;
    let high = row.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.x[row[middle]] + this.total[row[middle]] > x) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  // Which nodes a pattern finds. `module:`, `file:` and `kind:` look there instead of at the names.
  find(pattern, matchCase) {
    const [, field, rest] = /^(?:(module|file|kind):)?(.*)$/s.exec(pattern);
    const expression = new RegExp(rest, matchCase ? "u" : "iu");
    const frames = this.frames;
    const texts = {
      module: (frame) => [frames.modules[frames.module[frame]]],
      file: (frame) => [`${frames.files[frames.file[frame]]}:${frames.line[frame]}`],
      kind: (frame) => [this.head.kinds[frames.kind[frame]] ?? ""],
    }[field] ?? ((frame) => [frames.name[frame], frames.full[frame]]);
    const frameFound = Uint8Array.from(frames.name, (_, frame) => texts(frame).some((text) => text && expression.test(text)));
    const found = new Uint8Array(this.count);
    for (let node = 0; node < this.count; node++) found[node] = frameFound[this.frame[node]];
    return found;
  }

  // What the chosen nodes hold inside `top`, none counted twice, and how many they are.
  covered(chosen, top) {
    let sum = 0;
    let count = 0;
    let counted = 0; // up to here all belongs to a node already taken
    for (let node = top; node < this.after[top]; node++) {
      if (!chosen[node]) continue;
      count++;
      if (node >= counted) {
        sum += this.total[node];
        counted = this.after[node];
      }
    }
    return { sum, count };
  }

  #connect(depth) {
    this.parent = new Int32Array(this.count);
    this.after = new Int32Array(this.count);
    const path = [];
    for (let node = 0; node < this.count; node++) {
      this.parent[node] = node === 0 ? -1 : path[depth[node] - 1];
      path[depth[node]] = node;
    }
    for (let node = this.count - 1; node >= 0; node--) {
      this.after[node] = Math.max(this.after[node], node + 1);
      const parent = this.parent[node];
      if (parent >= 0 && this.after[parent] < this.after[node]) this.after[parent] = this.after[node];
    }
  }

  #total(own, folded) {
    const total = new Float64Array(this.count);
    for (let node = this.count - 1; node >= 0; node--) {
      total[node] += own[node] + folded[node];
      if (node > 0) total[this.parent[node]] += total[node];
    }
    return total;
  }

  #findChildren() {
    this.firstChild = new Int32Array(this.count + 1);
    for (let node = 1; node < this.count; node++) this.firstChild[this.parent[node] + 1]++;
    for (let node = 0; node < this.count; node++) this.firstChild[node + 1] += this.firstChild[node];
    const next = this.firstChild.slice();
    this.children = new Int32Array(this.count - 1);
    for (let node = 1; node < this.count; node++) this.children[next[this.parent[node]]++] = node;
  }

  #sortedChildren(total) {
    const sorted = this.children.slice();
    for (let node = 0; node < this.count; node++) {
      if (this.firstChild[node + 1] - this.firstChild[node] > 1) {
        sorted.subarray(this.firstChild[node], this.firstChild[node + 1]).sort((one, two) => total[two] - total[one] || one - two);
      }
    }
    return sorted;
  }

  #classes() {
    const css = new Uint16Array(this.count);
    const { kind, shade } = this.frames;
    const reach = this.head.diffSteps.length;
    for (let node = 0; node < this.count; node++) {
      css[node] = this.differential ? this.#diffStep(node) + reach : kind[this.frame[node]] * this.head.shades + shade[this.frame[node]];
    }
    return css;
  }

  #diffStep(node) {
    const [updated, base] = this.totals;
    const change = (updated[node] - base[node]) / Math.max(updated[node], base[node], 1);
    const step = this.head.diffSteps.filter((least) => Math.abs(change) >= least).length;
    return change < 0 ? -step : step;
  }

  // What the legend tells apart: kinds, or in a differential graph the direction of the change.
  #groups() {
    const group = new Uint8Array(this.count);
    const reach = this.head.diffSteps.length;
    for (let node = 0; node < this.count; node++) {
      const step = this.css[node] - reach;
      if (!this.differential) group[node] = this.frames.kind[this.frame[node]];
      else group[node] = Math.abs(step) === reach ? 2 + 2 * Math.sign(step) : 2 + Math.sign(step);
    }
    return group;
  }

  #describeGroups() {
    const shares = this.totals.map((total, metric) => this.#groupShares(total, this.own[metric]));
    const reach = this.head.diffSteps.length;
    const all = this.differential
      ? [[0, "gone", 0], [1, "less", reach - 3], [2, "same", reach], [3, "more", reach + 3], [4, "new", 2 * reach]]
      : this.head.kindOrder.map((kind) => [kind, this.head.kinds[kind], kind * this.head.shades + 2]);
    return all
      .map(([id, label, css]) => ({ id, label, css, inclusive: shares.map((part) => part.inclusive[id]), own: shares.map((part) => part.own[id]) }))
      .filter((group) => this.differential || (group.id !== 0 && group.inclusive[0] > 0));
  }

  #groupShares(total, values) {
    const inclusive = new Float64Array(32);
    const own = new Float64Array(32);
    const above = new Uint32Array(this.count); // a bit for each group that encloses the node
    for (let node = 0; node < this.count; node++) {
      const parent = this.parent[node];
      if (parent >= 0) above[node] = above[parent] | (1 << this.group[parent]);
      if (!(above[node] & (1 << this.group[node]))) inclusive[this.group[node]] += total[node];
      own[this.group[node]] += values[node];
    }
    return { inclusive, own };
  }
}

function framesOf(columns) {
  const named = ["name", "full", "kind", "shade", "file", "module", "line", "approximate"].map((name) => [name, columns[`frame.${name}`]]);
  return { ...Object.fromEntries(named), files: columns.file, modules: columns.module };
}
