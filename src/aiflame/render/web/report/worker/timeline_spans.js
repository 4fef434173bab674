// The slices of a block of the timeline, in lanes, and the pieces that a view shows of them.

import { SLICE } from "../../kinds.js";
import { lowerBound } from "../shared/sorted.js";

const GROUP = 64; // slices in a group, whose longest is computed once

export class Spans {
  /** `shift` is added to its times. */
  constructor({ head, columns }, shift = 0) {
    this.shift = shift;
    this.head = head;
    this.columns = columns;
    const count = columns["slice.gap"].length;
    this.begin = new Float64Array(count);
    this.end = new Float64Array(count);
    this.lane = new Int32Array(count);
    const sizes = columns["lane.count"];
    this.first = new Int32Array(sizes.length + 1);
    for (let lane = 0, at = 0; lane < sizes.length; lane++) {
      this.#place(lane, at, at + sizes[lane]);
      at += sizes[lane];
      this.first[lane + 1] = at;
    }
    this.counts = columns["slice.count"];
    const idle = columns["slice.idle"];
    this.busyBefore = sums(idle ? columns["slice.length"].map((length, row) => length - idle[row]) : columns["slice.length"]);
    this.countBefore = this.counts ? sums(this.counts) : null;
    this.#findLongest(columns["slice.length"]);
  }

  #place(lane, from, to) {
    const { "slice.gap": gap, "slice.length": length } = this.columns;
    let at = this.shift;
    for (let row = from; row < to; row++) {
      at += gap[row] % 2 === 0 ? gap[row] / 2 : -(gap[row] + 1) / 2;
      this.begin[row] = at;
      at += length[row];
      this.end[row] = at;
      this.lane[row] = lane;
    }
  }

  #findLongest(length) {
    this.longest = new Int32Array(Math.ceil(length.length / GROUP));
    for (let group = 0; group < this.longest.length; group++) {
      let best = group * GROUP;
      for (let row = best + 1; row < Math.min(length.length, (group + 1) * GROUP); row++) if (length[row] > length[best]) best = row;
      this.longest[group] = best;
    }
  }

  get tracks() {
    const { head, columns } = this;
    return columns["track.name"].map((name, row) => ({
      name,
      parent: columns["track.parent"][row] - 1,
      kind: head.track_kinds[columns["track.kind"][row]],
      number: columns["track.number"][row],
    }));
  }

  get lanes() {
    const { "lane.track": tracks, "lane.kind": kind, "lane.level": level, "lane.count": count } = this.columns;
    return Array.from(tracks, (track, lane) => ({ track, kind: kind[lane], level: level[lane], count: count[lane] }));
  }

  /**
   * The pieces to draw of a lane: `add(left, right, row, many, level)` for each piece. Neighbours narrower than a pixel are one piece; pieces begin
   * anew in each pixel of a grid that does not move with the view.
   */
  pieces(add, lane, begin, end, pixel) {
    const stop = this.first[lane + 1];
    let row = this.#firstAfter(lane, begin);
    while (row < stop && this.begin[row] < end) row = this.#piece(add, row, stop, pixel);
  }

  #piece(add, row, stop, pixel) {
    const wide = this.end[row] - this.begin[row] >= pixel;
    let next = row + 1;
    if (!wide) {
      const limit = (Math.floor(this.begin[row] / pixel) + 1) * pixel;
      next = lowerBound(this.begin, limit, row + 1, stop);
      // Of those that begin in this pixel only the last can be wide.
      if (next - row > 1 && this.end[next - 1] - this.begin[next - 1] >= pixel) next--;
    }
    const longest = next - row === 1 ? row : this.#longestOf(row, next);
    const [left, right] = [this.begin[row], this.end[next - 1]];
    const busy = this.busyBefore[next] - this.busyBefore[row];
    const room = Math.max(right - left, pixel);
    add(left, right, longest, this.#count(row, next), wide && !this.counts ? 255 : Math.round(255 * Math.min(1, busy / room)));
    return next;
  }

  /** How many slices a stretch of time has, and whether some of its pieces stand for many. */
  within(begin, end) {
    let [many, merged] = [0, false];
    for (let lane = 0; lane + 1 < this.first.length; lane++) {
      const from = this.#firstAfter(lane, begin);
      const to = Math.max(from, lowerBound(this.begin, end, from, this.first[lane + 1]));
      const count = this.#count(from, to);
      many += count;
      merged ||= count > to - from;
    }
    return { many, merged };
  }

  /** The slice of a lane around a stretch of time, -1: there is none that stands for itself alone. */
  around(lane, begin, end) {
    const row = this.#firstAfter(lane, begin);
    return row < this.first[lane + 1] && this.begin[row] <= begin && this.end[row] >= end && this.#count(row, row + 1) === 1 ? row : -1;
  }

  /** The slice of a lane that begins at a moment, -1: none. */
  beginning(lane, time) {
    const row = lowerBound(this.begin, time, this.first[lane], this.first[lane + 1]);
    return row < this.first[lane + 1] && this.begin[row] === time ? row : -1;
  }

  #count(from, to) {
    return this.countBefore ? this.countBefore[to] - this.countBefore[from] : to - from;
  }

  #longestOf(from, to) {
    const length = this.columns["slice.length"];
    let best = from;
    let row = from;
    while (row < to) {
      if (row % GROUP === 0 && row + GROUP <= to) {
        const one = this.longest[row / GROUP];
        if (length[one] > length[best]) best = one;
        row += GROUP;
      } else {
        if (length[row] > length[best]) best = row;
        row++;
      }
    }
    return best;
  }

  /** The first slice of a lane that ends after a time. Slices of a lane hardly ever overlap, so that ends are sorted as begins are. */
  #firstAfter(lane, time) {
    let row = lowerBound(this.begin, time, this.first[lane], this.first[lane + 1]);
    while (row > this.first[lane] && this.end[row - 1] > time) row--;
    return row;
  }

  slice(row) {
    const { columns, head } = this;
    if (!(row >= 0 && row < this.begin.length)) return null;
    const set = columns["slice.facts"][row];
    const facts = {};
    if (set > 0) {
      const sets = columns["fact.set"];
      for (let at = lowerBound(sets, set, 0, sets.length); at < sets.length && sets[at] === set; at++) {
        const text = columns["fact.text"][at];
        const key = head.keys[columns["fact.key"][at]];
        facts[key] ??= [];
        facts[key].push(text > 0 ? columns.text[text - 1] : columns["fact.number"][at]);
      }
    }
    const delay = columns["slice.delay"][row];
    return {
      row,
      name: columns.name[columns["slice.name"][row]],
      kind: columns["slice.kind"][row],
      lane: this.lane[row],
      begin: this.begin[row],
      end: this.end[row],
      step: columns["slice.step"][row] - 1,
      delay: delay > 0 ? delay - 1 : null,
      count: this.#count(row, row + 1),
      busy: this.busyBefore[row + 1] - this.busyBefore[row],
      before: row > this.first[this.lane[row]] ? row - 1 : -1,
      after: row + 1 < this.first[this.lane[row] + 1] ? row + 1 : -1,
      facts,
    };
  }

  nearest(lane, time) {
    const [from, to] = [this.first[lane], this.first[lane + 1]];
    if (from === to) return -1;
    const row = Math.min(lowerBound(this.begin, time, from, to), to - 1);
    if (row === from || this.begin[row] <= time) return row;
    return time - this.end[row - 1] <= this.begin[row] - time ? row - 1 : row;
  }

  step(time) {
    const lanes = this.columns["lane.kind"];
    for (const kind of [SLICE.STEP, SLICE.PHASE, SLICE.REGION]) {
      for (let lane = 0; lane < lanes.length; lane++) {
        if (lanes[lane] !== kind) continue;
        const row = this.nearest(lane, time);
        if (row >= 0 && this.begin[row] <= time && time <= this.end[row]) return { begin: this.begin[row], end: this.end[row], row };
      }
    }
    return null;
  }

  /** The step of median length of the first thread that has some. */
  usualStep() {
    const lane = this.columns["lane.kind"].indexOf(SLICE.STEP);
    if (lane < 0) return null;
    const length = this.columns["slice.length"];
    const rows = Array.from({ length: this.first[lane + 1] - this.first[lane] }, (_, at) => this.first[lane] + at);
    const row = rows.sort((one, other) => length[one] - length[other])[rows.length >> 1];
    return { begin: this.begin[row], end: this.end[row] };
  }

  totals(begin, end, most) {
    const { "lane.kind": kinds, "slice.name": names, "slice.kind": kind, name } = this.columns;
    const [took, ran] = [new Map(), new Map()];
    const streams = [];
    for (let lane = 0; lane < kinds.length; lane++) {
      if (!isWork(kinds[lane])) continue;
      let busy = 0;
      for (let row = this.#firstAfter(lane, begin); row < this.first[lane + 1] && this.begin[row] < end; row++) {
        const whole = this.end[row] - this.begin[row];
        const part = Math.min(this.end[row], end) - Math.max(this.begin[row], begin);
        const own = this.busyBefore[row + 1] - this.busyBefore[row];
        const value = whole > 0 ? (own * part) / whole : 0;
        const key = names[row] * 256 + kind[row];
        took.set(key, (took.get(key) ?? 0) + value);
        ran.set(key, (ran.get(key) ?? 0) + this.#count(row, row + 1));
        busy += value;
      }
      if (busy > 0) streams.push({ lane, busy });
    }
    const rows = [...took].map(([key, value]) => ({ name: name[Math.floor(key / 256)], kind: key % 256, value, count: ran.get(key) }));
    rows.sort((one, other) => other.value - one.value);
    return { total: rows.reduce((sum, one) => sum + one.value, 0), names: rows.length, rows: rows.slice(0, most), streams };
  }
}

/** Kernels and copies. */
function isWork(kind) {
  return kind === SLICE.KERNEL || kind === SLICE.COPY;
}

/** sums[row]: of all before that row. */
function sums(values) {
  const found = new Float64Array(values.length + 1);
  for (let row = 0; row < values.length; row++) found[row + 1] = found[row] + values[row];
  return found;
}
