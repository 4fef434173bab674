// A map from pairs of whole numbers to a number, in one typed array: open addressing, no object for any entry.

const ENTRY = 3; // first, second, value + 1

export class Pairs {
  #used = 0;
  #mask;

  constructor(expected = 1024) {
    const slots = 2 ** Math.ceil(Math.log2(Math.max(expected, 8) * 2));
    this.#mask = slots - 1;
    this.table = new Int32Array(slots * ENTRY);
  }

  /** The value of a pair, or -1. */
  get(first, second) {
    return this.table[this.#slot(first, second) + 2] - 1;
  }

  set(first, second, value) {
    const slot = this.#slot(first, second);
    const { table } = this;
    if (table[slot + 2] === 0 && ++this.#used * 2 > this.#mask) {
      this.#grow();
      this.#put(first, second, value + 1);
      return;
    }
    table[slot] = first;
    table[slot + 1] = second;
    table[slot + 2] = value + 1;
  }

  /** The value of a pair; a new pair gets `value`. One look-up for both. */
  getOrSet(first, second, value) {
    const slot = this.#slot(first, second);
    const { table } = this;
    if (table[slot + 2] !== 0) return table[slot + 2] - 1;
    if (++this.#used * 2 > this.#mask) {
      this.#grow();
      this.#put(first, second, value + 1);
      return value;
    }
    table[slot] = first;
    table[slot + 1] = second;
    table[slot + 2] = value + 1;
    return value;
  }

  #slot(first, second) {
    const { table } = this;
    const mask = this.#mask;
    let hash = Math.imul(first, 0x9e3779b1) ^ Math.imul(second, 0x85ebca6b);
    hash ^= hash >>> 15;
    hash = Math.imul(hash, 0x2c1b3c6d);
    let at = (hash ^ (hash >>> 13)) & mask;
    for (;;) {
      const slot = at * ENTRY;
      if (table[slot + 2] === 0 || (table[slot] === first && table[slot + 1] === second)) return slot;
      at = (at + 1) & mask;
    }
  }

  #put(first, second, stored) {
    const slot = this.#slot(first, second);
    this.table[slot] = first;
    this.table[slot + 1] = second;
    this.table[slot + 2] = stored;
  }

  #grow() {
    const old = this.table;
    this.table = new Int32Array(old.length * 2);
    this.#mask = this.#mask * 2 + 1;
    for (let slot = 0; slot < old.length; slot += ENTRY) {
      if (old[slot + 2] !== 0) this.#put(old[slot], old[slot + 1], old[slot + 2]);
    }
  }
}
