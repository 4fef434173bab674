// A tree's nodes in the order of a picture: depth-first, siblings in the chosen order, each with its left edge.

/**
 * A tree: node 0 is the root, a parent comes before its children. `columns` are the nodes' own values (of the metric, of launches, of the
 * base), `first` is when each first ran.
 * @typedef {{count: number, parent: ArrayLike<number>, frame: ArrayLike<number>, columns: Float64Array[], first?: Iterable<number>}} Tree
 */

/**
 * `total` are values with all below, `placed` is the new number of each old node: 0 where it is gone.
 * @typedef {{count: number, depth: ArrayLike<number>, frame: Int32Array, parent: Int32Array, after: Int32Array, left: Float64Array,
 *   own: Float64Array[], total: Float64Array[], placed: Int32Array}} Nodes
 * @typedef {Nodes & {rows: Int32Array, starts: Int32Array}} Arranged
 */

const SHORT = 16; // siblings

/**
 * Nodes of no value go. `widths` is the column that decides widths, `rank` the frames' places in the order of names.
 * A node's subtree is [node, after[node]); `rows` holds the nodes of each depth from left to right, `starts` where each begins.
 * @param {Tree} tree
 * @param {{order?: string, widths?: number, rank: ArrayLike<number>}} how
 * @returns {Arranged}
 */
export function arrange(tree, { order = "name", widths = 0, rank }) {
  const { parent } = tree;
  const all = tree.columns.map((own) => totals(tree, own));
  const shown = shownNodes(tree, all);
  const { starts, children } = childLists(tree, shown);
  sortEach(starts, children, comparer(tree, order, all[widths], rank));

  const sizes = new Int32Array(tree.count);
  for (let node = tree.count - 1; node > 0; node--) {
    if (!shown[node]) continue;
    sizes[node]++;
    sizes[parent[node]] += sizes[node];
  }
  const count = sizes[0] + 1;
  const placed = new Int32Array(tree.count); // new number of each old node
  const nodes = {
    count,
    depth: new Uint16Array(count),
    frame: new Int32Array(count),
    parent: new Int32Array(count).fill(-1),
    after: new Int32Array(count),
    left: new Float64Array(count),
    own: all.map(() => new Float64Array(count)),
    total: all.map(() => new Float64Array(count)),
    placed,
  };
  for (let old = 0; old < tree.count; old++) {
    if (old > 0 && !shown[old]) continue;
    const node = placed[old];
    nodes.frame[node] = tree.frame[old];
    nodes.after[node] = node + sizes[old] + (old === 0 ? 1 : 0);
    for (let column = 0; column < all.length; column++) {
      nodes.own[column][node] = tree.columns[column][old];
      nodes.total[column][node] = all[column][old];
    }
    let next = node + 1;
    let left = nodes.left[node];
    for (let at = starts[old]; at < starts[old + 1]; at++) {
      const child = children[at];
      placed[child] = next;
      nodes.parent[next] = node;
      nodes.depth[next] = nodes.depth[node] + 1;
      nodes.left[next] = left;
      next += sizes[child];
      left += all[widths][child];
    }
  }
  return { ...nodes, ...rowsOf(nodes) };
}

/**
 * Each node's value and all below it.
 * @param {Tree} tree
 * @param {ArrayLike<number>} own
 */
export function totals({ count, parent }, own) {
  const total = Float64Array.from(own);
  for (let node = count - 1; node > 0; node--) total[parent[node]] += total[node];
  return total;
}

/**
 * @param {Tree} tree
 * @param {Float64Array[]} all
 */
function shownNodes({ count }, all) {
  const shown = new Uint8Array(count);
  for (const total of all) for (let node = 0; node < count; node++) if (total[node] > 0) shown[node] = 1;
  return shown;
}

/**
 * Each node's children, side by side.
 * @param {Tree} tree
 * @param {Uint8Array} shown
 */
function childLists({ count, parent }, shown) {
  const starts = new Int32Array(count + 1);
  for (let node = 1; node < count; node++) starts[parent[node] + 1] += shown[node];
  for (let node = 0; node < count; node++) starts[node + 1] += starts[node];
  const children = new Int32Array(starts[count]);
  const next = starts.slice();
  for (let node = 1; node < count; node++) if (shown[node]) children[next[parent[node]]++] = node;
  return { starts, children };
}

/**
 * Most lists are short: those are put in order where they stand.
 * @param {Int32Array} starts
 * @param {Int32Array} children
 * @param {(one: number, other: number) => number} compare
 */
function sortEach(starts, children, compare) {
  for (let node = 0; node + 1 < starts.length; node++) {
    const from = starts[node];
    const to = starts[node + 1];
    if (to - from > SHORT) {
      children.subarray(from, to).sort(compare);
      continue;
    }
    for (let at = from + 1; at < to; at++) {
      const child = children[at];
      let place = at;
      while (place > from && compare(children[place - 1], child) > 0) children[place] = children[--place];
      children[place] = child;
    }
  }
}

/**
 * @param {Tree} tree
 * @param {string} order
 * @param {Float64Array} total
 * @param {ArrayLike<number>} rank
 * @returns {(one: number, other: number) => number}
 */
function comparer(tree, order, total, rank) {
  const { frame } = tree;
  const byName = (/** @type {number} */ one, /** @type {number} */ other) => rank[frame[one]] - rank[frame[other]];
  if (order === "width") return (one, other) => total[other] - total[one] || byName(one, other);
  if (order !== "time") return byName;
  const first = firsts(tree);
  return (one, other) => first[one] - first[other] || total[other] - total[one] || byName(one, other);
}

function firsts(/** @type {Tree} */ { count, parent, first = [] }) {
  const found = Int32Array.from(first);
  for (let node = count - 1; node > 0; node--) found[parent[node]] = Math.min(found[parent[node]], found[node]);
  return found;
}

function rowsOf(/** @type {Nodes} */ { count, depth }) {
  let deepest = 0;
  for (let node = 0; node < count; node++) if (depth[node] > deepest) deepest = depth[node];
  const starts = new Int32Array(deepest + 2);
  for (let node = 0; node < count; node++) starts[depth[node] + 1]++;
  for (let row = 0; row <= deepest; row++) starts[row + 1] += starts[row];
  const next = starts.slice();
  const rows = new Int32Array(count);
  for (let node = 0; node < count; node++) rows[next[depth[node]]++] = node;
  return { rows, starts };
}
