// The same frame in another tree.

/** @typedef {import("../../../flame/model.js").Model} Model */

/**
 * Frames on the way from the root, by which the same node is found in another tree.
 * @param {Model} model
 * @param {number} node
 */
export function pathOf({ parent, frame }, node) {
  const frames = [];
  for (let at = node; at > 0; at = parent[at]) frames.push(frame[at]);
  return frames.reverse();
}

/**
 * The node at the end of a path, or of as much of it as there is.
 * @param {Model} model
 * @param {number[]} path
 */
export function follow({ after, frame }, path) {
  let node = 0;
  for (const wanted of path) {
    let child = node + 1;
    while (child < after[node] && frame[child] !== wanted) child = after[child];
    if (child >= after[node]) return node;
    node = child;
  }
  return node;
}
