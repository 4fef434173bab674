// Counters of the timeline, in the worker: points that hold until the next, and the values to draw in each pixel.

import { lowerBound } from "../shared/sorted.js";

const LEVELS = 10_000; // as render/report/timeline_counters.py

export class Counters {
  #time;
  #value;
  #first = [0];
  #place = new Map();
  #parts = new Map();

  /** `shift` is added to its times. */
  constructor({ head, columns }, shift = 0) {
    this.told = head.counters ?? [];
    const { "point.gap": gap = [], "point.value": level = [] } = columns;
    this.#time = new Float64Array(gap.length);
    this.#value = new Float64Array(gap.length);
    this.told.forEach((one, at) => {
      const { floor, top, count, of } = one;
      if (of !== undefined) this.#parts.set(of, [...(this.#parts.get(of) ?? []), at]);
      this.#place.set(keyOf(one), at);
      let time = shift;
      const from = this.#first[at];
      for (let row = from; row < from + count; row++) {
        time += gap[row];
        this.#time[row] = time;
        this.#value[row] = floor + (level[row] / LEVELS) * (top - floor);
      }
      this.#first.push(from + count);
    });
  }

  /** The place of a counter of another block here, -1: it is not here. */
  placeOf(one) {
    return this.#place.get(keyOf(one)) ?? -1;
  }

  /** The places of a counter's parts. */
  partsOf(at) {
    return this.#parts.get(at) ?? [];
  }

  /**
   * Puts the value of each part, in the arrays `values`, from column `from` to before `to`: each pixel has those of the moment in it when they add up
   * to the most. Parts have the same moments.
   */
  fillParts(values, parts, { begin, pixel, from, to }) {
    const [first, stop] = [this.#first[parts[0]], this.#first[parts[0] + 1]];
    const offsets = parts.map((part) => this.#first[part] - first);
    const sum = (row) => offsets.reduce((all, offset) => all + this.#value[row + offset], 0);
    let row = lowerBound(this.#time, begin + from * pixel, first, stop);
    for (let column = from; column < to; column++) {
      const until = begin + (column + 1) * pixel;
      let best = row - 1;
      let most = best >= first ? sum(best) : -1;
      for (; row < stop && this.#time[row] < until; row++) {
        const here = sum(row);
        if (here > most) [best, most] = [row, here];
      }
      offsets.forEach((offset, part) => (values[part][column] = best >= first ? this.#value[best + offset] : 0));
    }
  }

  /** Puts the lowest and highest value of each pixel from column `from` to before `to` into `low` and `high`: column 0 begins at `begin`. */
  fill({ low, high }, at, { begin, pixel, from, to }) {
    const [first, stop] = [this.#first[at], this.#first[at + 1]];
    let row = lowerBound(this.#time, begin + from * pixel, first, stop);
    let holds = row > first ? this.#value[row - 1] : NaN;
    for (let column = from; column < to; column++) {
      const until = begin + (column + 1) * pixel;
      let [least, most] = [holds, holds];
      for (; row < stop && this.#time[row] < until; row++) {
        holds = this.#value[row];
        if (!(least <= holds)) least = holds;
        if (!(most >= holds)) most = holds;
      }
      low[column] = least;
      high[column] = most;
    }
  }
}

function keyOf({ group, label }) {
  return `${group}\n${label}`;
}
