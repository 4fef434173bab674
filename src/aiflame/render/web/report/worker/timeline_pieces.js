// The pieces of the timeline to draw.

const COLUMNS = ["left", "right", "row", "many", "level", "name", "kind"];

/** Pieces, in arrays that grow. */
export class Pieces {
  count = 0;
  #room = 1024;
  left = new Float64Array(this.#room);
  right = new Float64Array(this.#room);
  row = new Int32Array(this.#room);
  many = new Int32Array(this.#room);
  level = new Uint8Array(this.#room);
  name = new Int32Array(this.#room);
  kind = new Uint8Array(this.#room);

  add(left, right, row, many, level, name, kind) {
    if (this.count === this.#room) this.#grow();
    this.left[this.count] = left;
    this.right[this.count] = right;
    this.row[this.count] = row;
    this.many[this.count] = many;
    this.level[this.count] = level;
    this.name[this.count] = name;
    this.kind[this.count++] = kind;
  }

  #grow() {
    this.#room *= 2;
    for (const name of COLUMNS) {
      const larger = new this[name].constructor(this.#room);
      larger.set(this[name]);
      this[name] = larger;
    }
  }

  finish() {
    return Object.fromEntries(COLUMNS.map((name) => [name, this[name].slice(0, this.count)]));
  }
}
