// Where tracks and lanes stand, from the top of the timeline to its end, and which are folded.

import { partsOf, STACK } from "./stack.js";

export const LANE = 18;
const HEADER = 22;
const GAP = 6;
const MOST_TELLING = 6; // counters that are shown at once
const MOST_OPEN = 24; // rows of counters that unfold with "More counters"
const MOST_STACKS = 4; // counters with parts that are open
const FOLDS = { first: -1, more: -2, groups: -3, stacks: -2000 }; // below 0, since tracks have numbers from 0; there are up to 1000 counters
const OWNERS = new Set(["process", "thread", "device"]); // of other tracks

/**
 * @param about the answer of the call timeline.about
 * @param {Set<number>} turned tracks that a person has folded or opened
 * @param {boolean} closely with the tracks that only finer stretches have
 * @returns {{rows: Record<string, any>[], height: number} & Record<string, any>} rows with y and height: titles {fold, title, depth},
 *   lanes {lane, label} and counters {counter, label}, or {counter, parts}; `fold` names the thing that a click folds, if any: a track, or below 0 a group of
 *   counters
 */
export function layout(about, turned, closely = false) {
  return new Plan(about, turned, closely ? about.orders.closer : about.orders.whole).made();
}

class Plan {
  rows = [];
  y = 0;

  constructor(about, turned, order) {
    this.about = about;
    this.turned = turned;
    this.tracks = order.tracks;
    this.lanesOf = about.tracks.map(() => []);
    for (const lane of order.lanes) this.lanesOf[about.lanes[lane].track].push(lane);
    this.below = new Map([[-1, []]]);
    for (const number of order.tracks) {
      const { parent } = about.tracks[number];
      if (!this.below.has(parent)) this.below.set(parent, []);
      this.below.get(parent).push(number);
    }
    this.streams = order.tracks.some((number) => about.tracks[number].kind === "stream");
    this.busiest = this.#busiestStreams();
  }

  made() {
    this.#counters();
    this.#put(-1, 0);
    return { rows: this.rows, height: this.y + GAP };
  }

  #put(parent, depth) {
    for (const number of this.below.get(parent) ?? []) {
      const { kind } = this.about.tracks[number];
      if (OWNERS.has(kind)) this.#owner(number, depth);
      else if (this.below.has(number)) this.#samples(number, depth);
      else this.#track(number, depth, kind === "purpose" && this.about.tracks[number].number !== this.busiest.get(parent)?.number);
    }
  }

  /** Counters stand at the top: a few of the first group of the machine (its GPU, else its CPUs), those with parts, the others behind a title. */
  #counters() {
    const { counters } = this.about;
    const parts = partsOf(counters);
    const plain = [...counters.keys()].filter((counter) => counters[counter].of === undefined && !parts.has(counter));
    if (!plain.length) {
      this.#stacks(parts);
      return;
    }
    const first = counters[plain.find((one) => counters[one].machine) ?? plain[0]].group;
    const groups = new Map([[first, []]]);
    for (const counter of plain) {
      const { group } = counters[counter];
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(counter);
    }
    const telling = groups.get(first).splice(0, MOST_TELLING);
    this.#group(first, telling, FOLDS.first, false, 0);
    this.#stacks(parts);
    const rest = plain.length - telling.length;
    if (!rest) return;
    const folded = !this.turned.has(FOLDS.more);
    this.#title(`More counters (${rest})`, 0, FOLDS.more, folded);
    if (folded) return;
    let room = MOST_OPEN;
    let fold = FOLDS.groups;
    for (const [group, its] of groups) {
      if (!its.length) continue;
      room -= its.length;
      this.#group(`${group} (${its.length})`, its, fold--, room < 0, 1);
    }
  }

  /** @param {Map<number, number[]>} stacks the parts of each counter that has some */
  #stacks(stacks) {
    [...stacks].forEach(([counter, parts], place) => {
      const fold = FOLDS.stacks - place;
      const folded = place >= MOST_STACKS !== this.turned.has(fold);
      this.#title(this.about.counters[counter].label, 0, fold, folded);
      if (folded) return;
      this.rows.push({ y: this.y, height: STACK, counter, parts, depth: 0, label: "" });
      this.y += STACK;
    });
  }

  #group(title, counters, fold, usuallyFolded, depth) {
    const folded = usuallyFolded !== this.turned.has(fold);
    this.#title(title, depth, fold, folded);
    if (folded) return;
    for (const counter of counters) {
      this.rows.push({ y: this.y, height: LANE, counter, depth, label: this.about.counters[counter].label });
      this.y += LANE;
    }
  }

  /** Of each device the stream that most ran on. */
  #busiestStreams() {
    const found = new Map();
    for (const track of this.tracks) {
      const { kind, parent, number: stream } = this.about.tracks[track];
      const count = this.lanesOf[track].reduce((sum, lane) => sum + this.about.lanes[lane].count, 0);
      if (kind === "stream" && count > (found.get(parent)?.count ?? 0)) found.set(parent, { number: stream, count });
    }
    return found;
  }

  #owner(number, depth) {
    const folded = this.turned.has(number);
    this.#title(this.about.tracks[number].name, depth, number, folded);
    if (folded) return;
    for (const lane of this.lanesOf[number]) this.#lane(lane, depth, this.#kindOf(lane));
    this.#put(number, depth + 1);
  }

  /** Stacks of samples are folded where devices have tracks; the busiest thread's are open in them. */
  #samples(number, depth) {
    const threads = this.below.get(number);
    const folded = this.streams !== this.turned.has(number);
    const one = this.about.tracks[number].kind === "inside" ? "row" : "thread";
    this.#title(`${this.about.tracks[number].name} (${threads.length === 1 ? `1 ${one}` : `${threads.length} ${one}s`})`, depth, number, folded);
    if (!folded) threads.forEach((thread, place) => this.#track(thread, depth + 1, place > 0));
  }

  #track(number, depth, usuallyFolded = false) {
    const { name, parent, kind } = this.about.tracks[number];
    const lanes = this.lanesOf[number];
    const folds = lanes.length > 1;
    const folded = folds && usuallyFolded !== this.turned.has(number);
    const before = this.about.tracks[this.tracks[this.tracks.indexOf(number) - 1]];
    const continued = before && before.name === name && before.parent === parent && kind === "stream";
    lanes.slice(0, folded ? 1 : lanes.length).forEach((lane, place) => {
      const label = kind === "purpose" && !folded ? this.#kindOf(lane) : place === 0 && !continued ? this.#plainName(number) : "";
      this.#lane(lane, depth, label, place === 0 && folds ? number : undefined, folded);
    });
  }

  #title(title, depth, fold, folded) {
    this.y += this.rows.length && depth > 0 ? GAP : 0;
    this.rows.push({ y: this.y, height: HEADER, title, depth, fold, folded });
    this.y += HEADER;
  }

  #lane(lane, depth, label, fold = undefined, folded = false) {
    this.rows.push({ y: this.y, height: LANE, lane, depth, label, fold, folded });
    this.y += LANE;
  }

  /** A kind is named once, at its first level. */
  #kindOf(lane) {
    const { kind, track } = this.about.lanes[lane];
    const lanes = this.lanesOf[track];
    const before = this.about.lanes[lanes[lanes.indexOf(lane) - 1]];
    return before?.kind === kind ? "" : this.about.kinds[kind].label;
  }

  /** Without its owner's name, which stands above it. */
  #plainName(number) {
    const { name, parent } = this.about.tracks[number];
    const owner = parent >= 0 ? `${this.about.tracks[parent].name}: ` : "";
    return owner && name.startsWith(owner) ? name.slice(owner.length) : name;
  }
}
