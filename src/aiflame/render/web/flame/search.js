// Nodes that match a pattern, and the sum of their values.

/**
 * `module:`, `file:` and `kind:` look there instead of at the names. Throws where the pattern is no expression.
 * @param {import("./model.js").Model} model
 * @param {string} pattern
 * @param {boolean} matchCase
 */
export function find(model, pattern, matchCase) {
  const [, field, rest] = /** @type {RegExpExecArray} */ (/^(?:(module|file|kind):)?(.*)$/s.exec(pattern));
  const expression = new RegExp(rest, matchCase ? "u" : "iu");
  const { frames, labels } = model;
  /** @type {Record<string, (row: number) => boolean>} */
  const tests = {
    module: (row) => expression.test(frames.modules[frames.module[row]] ?? ""),
    file: (row) => expression.test(`${frames.files[frames.file[row]] ?? ""}:${frames.line[row]}`),
    kind: (row) => expression.test(labels[frames.kind[row]] ?? ""),
  };
  const name = (/** @type {number} */ row) => expression.test(frames.name[row]) || (frames.full[row] !== "" && expression.test(frames.full[row]));
  const test = tests[field] ?? name;
  const frameFound = new Uint8Array(frames.name.length);
  for (let row = 1; row < frameFound.length; row++) if (test(row)) frameFound[row] = 1;
  return new Found(model, (node) => frameFound[model.frame[node]]);
}

export class Found {
  /**
   * @param {import("./model.js").Model} model
   * @param {(node: number) => number | boolean} test
   */
  constructor(model, test) {
    const { count, rows } = model;
    this.nodes = new Uint8Array(count);
    for (let node = 0; node < count; node++) this.nodes[node] = Number(test(node));
    // How many are found before each place in the rows: whether a run of narrow bars has one is then two look-ups.
    this.before = new Int32Array(count + 1);
    for (let place = 0; place < count; place++) this.before[place + 1] = this.before[place] + this.nodes[rows[place]];
    this.model = model;
  }

  any(/** @type {number} */ from, /** @type {number} */ to) {
    return this.before[to] > this.before[from];
  }

  /** Sum and number of matches in a subtree, a match within a match summed once; of a sandwich's middle, callees and callers apart. */
  covered(/** @type {number} */ top) {
    const { model } = this;
    const ends = top === 0 && model.upper < model.count ? [[0, model.upper], [model.upper, model.count]] : [[top, model.after[top]]];
    return ends.map(([from, to]) => this.#sum(from, to));
  }

  #sum(/** @type {number} */ from, /** @type {number} */ to) {
    const { after, width } = this.model;
    const end = (/** @type {number} */ node) => Math.min(after[node], to);
    let sum = 0;
    let count = 0;
    let counted = 0; // up to here all belongs to a node already taken
    for (let node = from; node < to; node++) {
      if (!this.nodes[node] || width[node] <= 0) continue;
      count++;
      if (node >= counted) {
        sum += width[node];
        counted = end(node);
      }
    }
    return { sum, count };
  }

  /**
   * The next found node in depth-first order, within a subtree, or -1.
   * @param {number} from
   * @param {1 | -1} step
   * @param {number} top
   */
  next(from, step, top) {
    const { after, width } = this.model;
    const count = after[top] - top;
    for (let moved = 1; moved <= count; moved++) {
      const node = top + ((((from - top + step * moved) % count) + count) % count);
      if (this.nodes[node] && width[node] > 0) return node;
    }
    return -1;
  }
}
