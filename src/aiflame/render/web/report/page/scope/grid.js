// The cells of the heat map. By time: a column is a stretch of it, a row a position within; by step: a column is a step.

const COLUMNS = [1e7, 1e8, 1e9, 1e10, 6e10]; // ns
export const ROWS = [10, 20, 25, 50, 100];
const ENOUGH = 24; // columns, before longer ones are the better choice

/** Lengths of columns that the bins can fill with rows. */
export function columnChoices({ bin_ns: bin, count }) {
  const fine = COLUMNS.filter((length) => length >= 10 * bin * 0.999);
  const short = fine.filter((length, place) => place === 0 || length <= bin * count);
  return short.length ? short : [10 * bin];
}

export function usualColumn(bins) {
  const choices = columnChoices(bins);
  return choices.filter((length) => (bins.bin_ns * bins.count) / length >= ENOUGH).at(-1) ?? choices[0];
}

export function rowChoices(column, bin) {
  const found = ROWS.filter((rows) => column / rows >= bin * 0.999);
  return found.length ? found : [ROWS[0]];
}

/** Cells of time. `range` of a selection and of a cell: its first and last bin. */
export class TimeGrid {
  kind = "time";

  constructor(bins, values, column, rows) {
    this.bins = bins;
    this.rows = rows;
    this.column = column;
    this.cell = column / rows;
    this.columns = Math.max(1, Math.ceil((bins.bin_ns * bins.count) / column));
    this.values = new Float64Array(this.columns * rows);
    for (let index = 0; index < this.values.length; index++) {
      const [from, to] = this.binsOf(index, index);
      for (let bin = from; bin <= to && bin < values.length; bin++) this.values[index] += values[bin];
    }
  }

  /** First and last bin of cells. */
  binsOf(first, last) {
    return [this.#binAt(first), Math.max(this.#binAt(first), this.#binAt(last + 1) - 1)];
  }

  #binAt(index) {
    return Math.round((index * this.cell) / this.bins.bin_ns);
  }

  /** The cells of a range of bins. */
  cellsOf([from, to]) {
    const at = (bin) => Math.floor(((bin + 0.5) * this.bins.bin_ns) / this.cell);
    return [at(from), Math.min(at(to), this.values.length - 1)];
  }

  /** When a cell begins, in ns. */
  begin(index) {
    return index * this.cell;
  }

  /** All cells last equally long, so a cell's value decides its colour. */
  shade(index) {
    return this.values[index];
  }

  /** The sum above each column. */
  above(column) {
    let sum = 0;
    for (let row = 0; row < this.rows; row++) sum += this.values[column * this.rows + row];
    return sum;
  }
}

/** Cells of steps (of one process). A selection consists of whole steps. */
export class StepGrid {
  kind = "step";

  constructor(steps, { slots, bins }, values, rows) {
    this.steps = steps; // {row, number, begin, end}, ns after the origin
    this.rows = rows;
    this.slots = slots;
    this.origin = bins.origin_ns;
    this.columns = steps.length;
    this.values = new Float64Array(this.columns * rows);
    for (let column = 0; column < this.columns; column++) {
      for (let slot = 0; slot < slots; slot++) {
        this.values[column * rows + Math.floor((slot * rows) / slots)] += values[steps[column].row * slots + slot];
      }
    }
  }

  slotsOf(row) {
    return [Math.ceil((row * this.slots) / this.rows), Math.ceil(((row + 1) * this.slots) / this.rows) - 1];
  }

  above(column) {
    return this.steps[column].end - this.steps[column].begin;
  }

  /** How much there was in each ms: a long step's cells are long, too. */
  shade(index) {
    const took = this.above(Math.floor(index / this.rows)) / this.rows;
    return took > 0 ? (this.values[index] / took) * 1e6 : 0;
  }
}
