// Arithmetic on the nodes of a tree: the transforms of a flame graph. Only typed arrays, and no recursion.
//
// A tree is as `flame/arrange.js` has it. Every function gives a new tree and changes none.

import { totals } from "../../flame/arrange.js";
import { KIND } from "../../kinds.js";
import { Growth, longer } from "./growth.js";

export const NEVER = 2 ** 31 - 1;
const LONGEST_CYCLE = 6; // functions in the longest cycle that counts as recursion, as in attribute/transforms/recursion.py
const CODE = new Set([KIND.PYTHON, KIND.C, KIND.CPP]);
const MOST_INVERTED = 1_000_000; // then paths of less than the least share end where they are
const LEAST_SHARE = 1e-5;

/** Keeps only stacks through one of the marked frames: other nodes have no value. */
export function focus(tree, marked) {
  const { count, parent, frame } = tree;
  const inside = new Uint8Array(count);
  const columns = tree.columns.map((own) => own.slice());
  for (let node = 0; node < count; node++) {
    inside[node] = node > 0 && (marked[frame[node]] || inside[parent[node]]) ? 1 : 0;
    if (!inside[node]) for (const own of columns) own[node] = 0;
  }
  return { ...tree, columns };
}

/** A run of calls that repeats itself at once (`a a`, `a b a b` …) merged into its first turn, as attribute/transforms/recursion.py does. */
export function mergeRecursion(tree, kinds) {
  const { count, parent, frame } = tree;
  const place = new Int32Array(count); // where a node's own value and callees go
  const above = Int32Array.from(parent);
  // For each period, how many frames up to here equal the one that many callers above: as many as the period are a full repeat.
  const repeats = Array.from({ length: LONGEST_CYCLE + 1 }, () => new Uint8Array(count));
  for (let node = 1; node < count; node++) {
    const caller = place[parent[node]];
    place[node] = node;
    above[node] = caller;
    if (!CODE.has(kinds[frame[node]])) continue;
    let ancestor = caller;
    for (let period = 1; period <= LONGEST_CYCLE && ancestor > 0; period++) {
      if (frame[ancestor] === frame[node]) {
        const run = Math.min(repeats[period][caller], LONGEST_CYCLE) + 1;
        repeats[period][node] = run;
        if (run >= period) {
          place[node] = ancestor;
          break;
        }
      }
      ancestor = above[ancestor];
    }
  }
  return moved(tree, (growth, to) => {
    for (let node = 1; node < count; node++) to[node] = place[node] === node ? growth.child(to[above[node]], frame[node]) : to[place[node]];
  });
}

/** Only own code: `fold` has for each frame of a package the frame that stands for it, as attribute/transforms/own_code.py. */
export function ownCode(tree, fold) {
  const { count, parent, frame, columns } = tree;
  const own = new Int32Array(count); // where the nearest own node went
  const called = new Int32Array(count); // the frame that a run of a package's functions folds into: its outermost one's
  return moved(tree, (growth, to) => {
    for (let node = 1; node < count; node++) {
      const above = parent[node];
      if (!fold[frame[node]]) {
        to[node] = own[node] = growth.child(own[above], frame[node]);
        continue;
      }
      own[node] = own[above];
      called[node] = called[above] || fold[frame[node]];
      to[node] = columns.some((one) => one[node] !== 0) ? growth.child(own[node], called[node]) : -1;
    }
  });
}

/** All nodes of the marked frames as if they were outermost, those of one name as one; a match within a match counts once. */
export function merge(tree, marked) {
  const { count, parent, frame } = tree;
  return moved(tree, (growth, to) => {
    to.fill(-1);
    for (let node = 1; node < count; node++) {
      if (to[parent[node]] >= 0) to[node] = growth.child(to[parent[node]], frame[node]);
      else if (marked[frame[node]]) to[node] = growth.child(0, frame[node]);
    }
  });
}

/** The callees of the marked frames, all under the root, which stands for the marked frames. */
export function callees(tree, marked) {
  const { count, parent, frame } = tree;
  let middle = 0;
  const made = moved(tree, (growth, to) => {
    to.fill(-1);
    for (let node = 1; node < count; node++) {
      if (to[parent[node]] >= 0) to[node] = growth.child(to[parent[node]], frame[node]);
      else if (marked[frame[node]]) {
        to[node] = 0;
        middle ||= frame[node];
      }
    }
  });
  made.frame[0] = middle;
  return made;
}

/** Every stack turned round, its value at its end. */
export function invert(tree) {
  const { count, frame, columns } = tree;
  const source = new Int32Array(count);
  let sources = 0;
  for (let node = 1; node < count; node++) if (columns.some((own) => own[node] !== 0)) source[sources++] = node;
  return climbed(tree, source.subarray(0, sources), columns, (growth, node) => growth.child(0, frame[node]));
}

/** The callers of the marked frames: under the root, which stands for the marked frames, their callers, then theirs. */
export function callers(tree, marked) {
  const { count, parent, frame } = tree;
  const inside = new Uint8Array(count);
  const source = [];
  for (let node = 1; node < count; node++) {
    if (inside[parent[node]]) inside[node] = 1;
    else if (marked[frame[node]]) {
      inside[node] = 1;
      source.push(node);
    }
  }
  return climbed(tree, Int32Array.from(source), tree.columns.map((own) => totals(tree, own)), () => 0);
}

/** From each source up to the root, a caller a round, all sources at once; `begin` says where each one's path begins. */
function climbed(tree, source, values, begin) {
  const { parent, frame, first } = tree;
  const growth = new Growth(Math.max(1024, source.length * 2));
  const place = new Int32Array(source.length);
  const cursor = new Int32Array(source.length);
  for (let at = 0; at < source.length; at++) {
    place[at] = begin(growth, source[at]);
    cursor[at] = parent[source[at]];
  }
  let climbing = Int32Array.from(source.keys());
  let weight = new Float64Array(1024); // the sum that has come to each node
  const whole = source.reduce((sum, node) => sum + values[0][node], 0);
  let small = false;
  while (climbing.length > 0) {
    let left = 0;
    for (const at of climbing) {
      if (cursor[at] <= 0 || (small && weight[place[at]] < whole * LEAST_SHARE)) continue;
      place[at] = growth.child(place[at], frame[cursor[at]]);
      cursor[at] = parent[cursor[at]];
      climbing[left++] = at;
      while (weight.length < growth.size) weight = longer(weight);
      weight[place[at]] += values[0][source[at]];
    }
    climbing = climbing.subarray(0, left);
    small = growth.size > MOST_INVERTED;
  }
  const made = growth.nodes();
  const columns = values.map(() => new Float64Array(made.count));
  const begun = new Int32Array(made.count).fill(NEVER);
  for (let at = 0; at < source.length; at++) {
    values.forEach((value, column) => (columns[column][place[at]] += value[source[at]]));
    begun[place[at]] = Math.min(begun[place[at]], first[source[at]]);
  }
  return { ...made, columns, first: begun, cut: small };
}

/** A tree of the nodes that `move` puts into a growth; `to` says where each old node's value goes, -1 for away. */
function moved(tree, move) {
  const growth = new Growth(Math.max(1024, tree.count));
  const to = new Int32Array(tree.count);
  move(growth, to);
  const made = growth.nodes();
  const columns = tree.columns.map(() => new Float64Array(made.count));
  const first = new Int32Array(made.count).fill(NEVER);
  for (let node = 0; node < tree.count; node++) {
    if (to[node] < 0) continue;
    for (let column = 0; column < columns.length; column++) columns[column][to[node]] += tree.columns[column][node];
    first[to[node]] = Math.min(first[to[node]], tree.first[node]);
  }
  return { ...made, columns, first };
}
