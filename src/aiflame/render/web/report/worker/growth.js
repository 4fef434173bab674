// A tree in the making: adds the paths of forests to its nodes, and makes equal siblings one node. Node 0 is the root; a node's parent comes before
// it.

import { Pairs } from "./pairs.js";

export class Growth {
  #children;
  #known;
  #path = new Int32Array(64);
  #met = new Map();
  #latest = null;

  /** For `expected` nodes, of which `looked` need a look-up among their siblings. */
  constructor(expected = 1024, looked = expected) {
    this.size = 1;
    this.parent = new Int32Array(expected);
    this.frame = new Int32Array(expected);
    this.parent[0] = -1;
    this.#children = new Pairs(looked);
    this.#known = new Pairs(1024);
  }

  /** The child of `node` with that frame, made if it is not there. */
  child(node, frame) {
    const found = this.#children.getOrSet(node, frame, this.size);
    return found === this.size ? this.#made(node, frame) : found;
  }

  #made(node, frame) {
    const { size } = this;
    if (size === this.parent.length) {
      this.parent = longer(this.parent);
      this.frame = longer(this.frame);
    }
    this.parent[size] = node;
    this.frame[size] = frame;
    return this.size++;
  }

  /**
   * Adds the path that ends at a forest's node below `place`, and returns the path's end. Hidden frames take no place. `forest.first` separates the
   * nodes of one forest from those of another; `forest.alone`: no node inside its trees equals one that the tree has already, so that no look-up is
   * needed.
   */
  put(place, forest, node, hidden) {
    const { parent, frame, first, alone } = forest;
    const met = this.#metOf(forest);
    const { on, is } = met;
    let here = place;
    let length = 0;
    for (let at = node; at !== 0; at = parent[at]) {
      if (parent[at] !== 0) {
        const found = on[at] === place + 1 ? is[at] : on[at] === 0 ? -1 : this.#known.get(place, first + at);
        if (found >= 0) {
          here = found;
          break;
        }
      }
      if (length === this.#path.length) this.#path = longer(this.#path);
      this.#path[length++] = at;
    }
    while (length > 0) {
      const at = this.#path[--length];
      if (parent[at] === 0) {
        if (!hidden[frame[at]]) here = this.child(here, frame[at]);
        continue;
      }
      if (alone) here = this.#made(here, frame[at]);
      else if (!hidden[frame[at]]) here = this.child(here, frame[at]);
      if (on[at] === 0) {
        on[at] = place + 1;
        is[at] = here;
      } else this.#known.set(place, first + at, here);
    }
    return here;
  }

  /** Where each node of a forest was put first: many are put on one place alone, and need no map. */
  #metOf(forest) {
    if (this.#latest?.forest === forest) return this.#latest;
    let met = this.#met.get(forest);
    if (!met) {
      const { length } = forest.parent;
      met = { forest, on: new Int32Array(length), is: new Int32Array(length) };
      this.#met.set(forest, met);
    }
    this.#latest = met;
    return met;
  }

  nodes() {
    return { count: this.size, parent: this.parent.subarray(0, this.size), frame: this.frame.subarray(0, this.size) };
  }
}

export function longer(array) {
  const grown = new array.constructor(array.length * 2);
  grown.set(array);
  return grown;
}
