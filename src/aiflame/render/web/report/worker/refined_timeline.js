// The timeline in the worker: its block, and over it finer stretches, whose rows have numbers behind the block's own.

import { Counters } from "./timeline_counters.js";
import { Pieces } from "./timeline_pieces.js";
import { Spans } from "./timeline_spans.js";
import { Tracks } from "./timeline_tracks.js";

const MANY = 15_000; // slices that are looked at closely at once
const PATCHES = 6;
const SHORT = 1 / 8; // of the whole: where a stretch is no longer, counters may be had finer

export class RefinedTimeline {
  #tracks = new Tracks();
  #patches = []; // the newest last
  #names = new Map();
  #shades = [];

  constructor(block) {
    this.whole = { ...this.#source(new Spans(block), 0), counters: new Counters(block) };
    this.first = this.#tracks.order;
    this.rows = this.whole.spans.begin.length;
  }

  #source(spans, base) {
    const { name: names, "name.shade": shades } = spans.columns;
    const laneOf = this.#tracks.add(spans);
    const nameOf = Int32Array.from(names, (name, row) => {
      if (!this.#names.has(name)) {
        this.#names.set(name, this.#names.size);
        this.#shades.push(shades[row]);
      }
      return this.#names.get(name);
    });
    return { spans, base, laneOf, nameOf, own: new Map(Array.from(laneOf, (lane, own) => [lane, own])) };
  }

  /** Tracks, lanes and names: of the block, or after a stretch was read closer of that, too. */
  about() {
    const { head } = this.whole.spans;
    return {
      tracks: this.#tracks.tracks,
      lanes: this.#tracks.lanes,
      orders: { whole: this.first, closer: this.#tracks.order },
      origin: head.origin_ns,
      length: head.length_ns,
      kinds: head.kinds,
      sampled: head.sampled ?? [],
      leftOut: head.left_out,
      merged: head.merged,
      counters: this.whole.counters.told,
      thinned: Boolean(head.thinned),
      slices: this.whole.spans.begin.length,
      usualStep: this.whole.spans.usualStep(),
      names: [...this.#names.keys()],
      shades: this.#shades,
    };
  }

  /**
   * Whether a stretch is short enough to be shown closely and has more in it than the block; and the stretch to read, if it is not here yet. A short
   * stretch is read with much around it, so that the next movement needs nothing. `counters`: it is for counters alone.
   */
  closer({ begin, end }) {
    const { spans } = this.whole;
    const { merged, left_out: leftOut, origin_ns: origin, length_ns: length, thinned } = spans.head;
    const found = merged || leftOut.length || thinned ? spans.within(begin, end) : { many: Infinity };
    const finer = leftOut.length > 0 || found.merged;
    const counters = !finer && thinned && end - begin < length * SHORT;
    if (found.many > MANY || !(finer || counters)) return { close: false };
    if (this.#patches.some((patch) => patch.begin <= begin && patch.end >= end)) return { close: true };
    let [from, to] = [begin, end];
    for (let around = (end - begin) / 2; around < length; around *= 2) {
      if (counters && 2 * around > length * SHORT) break;
      if (spans.within(begin - around, end + around).many > 2 * MANY) break;
      [from, to] = [begin - around, end + around];
    }
    return { close: true, counters, ask: { begin: Math.max(-origin, Math.floor(from)), end: Math.ceil(to) } };
  }

  /** Puts a block over its stretch of time. */
  add(block) {
    const begin = block.head.origin_ns - this.whole.spans.head.origin_ns;
    const counters = new Counters(block, begin);
    const patch = { ...this.#source(new Spans(block, begin), this.rows), counters, begin, end: begin + block.head.length_ns };
    this.rows += patch.spans.begin.length;
    this.#patches = [...this.#patches.slice(1 - PATCHES), patch];
    return this.about();
  }

  /** `closely`: where a stretch was read closer, that is shown. */
  view({ begin, end, pixel, lanes, counters = [], closely }) {
    const pieces = new Pieces();
    const from = new Int32Array(lanes.length + 1);
    const patch = closely ? this.#best(begin, end) : null;
    lanes.forEach((lane, place) => {
      if (!patch) {
        this.#put(pieces, this.whole, lane, begin, end, pixel);
      } else {
        this.#putBeside(pieces, patch, lane, begin, Math.min(end, patch.begin), pixel);
        this.#putCloser(pieces, patch, lane, Math.max(begin, patch.begin), Math.min(end, patch.end), pixel);
        this.#putBeside(pieces, patch, lane, Math.max(begin, patch.end), end, pixel);
      }
      from[place + 1] = pieces.count;
    });
    const counted = counters.map((counter) => this.#counted(counter, patch, begin, end, pixel));
    const answer = { ...pieces.finish(), from, lanes, counted, begin, end, pixel, closer: patch && { begin: patch.begin, end: patch.end } };
    const buffers = ["left", "right", "row", "many", "level", "name", "kind"].map((name) => answer[name].buffer);
    return { answer, transfer: [...buffers, ...counted.flatMap(({ low, high, parts }) => [low, high, ...parts].map((one) => one.buffer))] };
  }

  /** The lowest and highest value of a counter in each pixel, NaN before its first; and the values of its parts when they are highest. */
  #counted(counter, patch, begin, end, pixel) {
    const count = Math.max(1, Math.ceil((end - begin) / pixel));
    const { counters } = this.whole;
    const parts = counters.partsOf(counter);
    const found = { counter, low: new Float32Array(count), high: new Float32Array(count), parts: parts.map(() => new Float32Array(count)) };
    counters.fill(found, counter, { begin, pixel, from: 0, to: count });
    if (parts.length) counters.fillParts(found.parts, parts, { begin, pixel, from: 0, to: count });
    if (!patch) return found;
    const column = (time) => Math.max(0, Math.min(count, Math.floor((time - begin) / pixel)));
    const closer = { begin, pixel, from: column(patch.begin), to: column(patch.end) };
    const here = (place) => patch.counters.placeOf(counters.told[place]);
    if (here(counter) >= 0) patch.counters.fill(found, here(counter), closer);
    if (parts.length && parts.every((part) => here(part) >= 0)) patch.counters.fillParts(found.parts, parts.map(here), closer);
    return found;
  }

  /** The patch that has most of a stretch, and of equals the newest. */
  #best(begin, end) {
    let [best, most] = [null, 0];
    for (const patch of this.#patches) {
      const has = Math.min(end, patch.end) - Math.max(begin, patch.begin);
      if (has > 0 && has >= most) [best, most] = [patch, has];
    }
    return best;
  }

  /** @param {(left: number, right: number, row: number, many: number) => number[] | null} fits */
  #put(pieces, source, lane, begin, end, pixel, fits = (left, right) => [left, right]) {
    const own = source.own.get(lane);
    if (own === undefined || begin >= end) return;
    const { "slice.name": name, "slice.kind": kind } = source.spans.columns;
    const add = (left, right, row, many, level) => {
      const fitting = fits(left, right, row, many);
      if (fitting) pieces.add(...fitting.slice(0, 2), fitting[2] ?? source.base + row, many, level, source.nameOf[name[row]], kind[row]);
    };
    source.spans.pieces(add, own, begin, end, pixel);
  }

  /** Draws slices that reach into a finer stretch there, unless one stands for many. */
  #putBeside(pieces, patch, lane, begin, end, pixel) {
    this.#put(pieces, this.whole, lane, begin, end, pixel, (left, right, _, many) => {
      const inside = left < patch.end && right > patch.begin;
      if (inside && many === 1 && patch.own.has(lane)) return null;
      return inside ? [Math.max(left, begin), Math.min(right, end)] : [left, right];
    });
  }

  #putCloser(pieces, patch, lane, begin, end, pixel) {
    this.#put(pieces, patch, lane, begin, end, pixel, (left, right, row, many) => {
      const whole = many === 1 ? this.#uncut(patch, row) : -1;
      return whole < 0 ? [left, right] : [this.whole.spans.begin[whole], this.whole.spans.end[whole], whole];
    });
  }

  /** The slice that a finer stretch cuts at its edge, as the whole timeline has it. -1: none. */
  #uncut(patch, row) {
    const { begin, end, lane, columns } = patch.spans;
    if (begin[row] > patch.begin && end[row] < patch.end) return -1;
    const own = this.whole.own.get(patch.laneOf[lane[row]]);
    const found = own === undefined ? -1 : this.whole.spans.around(own, begin[row], end[row]);
    if (found < 0) return -1;
    const named = this.whole.nameOf[this.whole.spans.columns["slice.name"][found]];
    return named === patch.nameOf[columns["slice.name"][row]] ? found : -1;
  }

  #sourceOf(row) {
    return row < this.whole.spans.begin.length ? this.whole : this.#patches.find(({ base, spans }) => row >= base && row < base + spans.begin.length);
  }

  /** All facts of a slice; null if its stretch was dropped. `cut`: it goes on beyond the stretch. */
  slice(row) {
    const source = this.#sourceOf(row);
    const found = source?.spans.slice(row - source.base);
    if (!found) return null;
    const [lane, own] = [source.laneOf[found.lane], found.lane];
    const number = this.#tracks.tracks[this.#tracks.lanes[lane].track].number;
    if (source === this.whole) return { ...found, lane, cut: false, link: String(row) };
    const beside = (one, by) => (one >= 0 ? one + source.base : this.#beyond(source, own, by));
    return {
      ...found,
      row,
      lane,
      before: beside(found.before, -1),
      after: beside(found.after, 1),
      cut: found.begin <= source.begin || found.end >= source.end,
      link: `${found.begin}.${found.kind}.${number}`,
    };
  }

  /** The block's last slice before, or first after, a stretch that was read closer. */
  #beyond(patch, own, by) {
    const lane = this.whole.own.get(patch.laneOf[own]);
    if (lane === undefined) return -1;
    const { spans } = this.whole;
    const near = spans.nearest(lane, by < 0 ? patch.begin : patch.end);
    for (let row = near; row >= spans.first[lane] && row < spans.first[lane + 1]; row += by) {
      if (by < 0 ? spans.end[row] <= patch.begin : spans.begin[row] >= patch.end) return row;
    }
    return -1;
  }

  /** The slice that a link means. */
  linked(link) {
    const [begin, kind, number] = link.split(".").map(Number);
    if (kind === undefined) return this.slice(begin);
    for (const { spans, base, laneOf } of this.#patches) {
      for (let lane = 0; lane < laneOf.length; lane++) {
        const row = this.#tracks.tracks[this.#tracks.lanes[laneOf[lane]].track].number === number ? spans.beginning(lane, begin) : -1;
        if (row >= 0 && spans.columns["slice.kind"][row] === kind) return this.slice(base + row);
      }
    }
    return null;
  }

  nearest(lane, time, closely) {
    const patch = closely ? this.#best(time, time + 1) : null;
    const source = patch?.own.has(lane) ? patch : this.whole;
    if (!source.own.has(lane)) return -1;
    const row = source.spans.nearest(source.own.get(lane), time);
    return row < 0 ? -1 : row + source.base;
  }

  step(time) {
    return this.whole.spans.step(time);
  }

  totals(begin, end, most) {
    const source = this.#patches.findLast((patch) => patch.begin <= begin && patch.end >= end) ?? this.whole;
    const found = source.spans.totals(begin, end, most);
    return { ...found, streams: found.streams.map(({ lane, busy }) => ({ lane: source.laneOf[lane], busy })) };
  }
}
