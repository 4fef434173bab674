// The tracks and lanes of the whole timeline and of finer stretches, which may have more.

import { SLICE } from "../../kinds.js";

/** Kinds that share lanes: copies with kernels, marks with regions. */
const ALIKE = { [SLICE.COPY]: SLICE.KERNEL, [SLICE.MARK]: SLICE.REGION };

export class Tracks {
  tracks = [];
  lanes = [];
  #trackOf = new Map(); // properties that identify a track → its number
  #laneOf = new Map();
  #below = new Map(); // number of a track → tracks below it, from the top
  #lanesOf = []; // of each track, from the top

  /** Adds new tracks and lanes. The numbers that a block's lanes have here. */
  add({ tracks, lanes }) {
    const track = this.#addTracks(tracks);
    const found = new Int32Array(lanes.length);
    const last = new Map();
    lanes.forEach((lane, own) => {
      const of = track[lane.track];
      const key = `${of}/${ALIKE[lane.kind] ?? lane.kind}/${lane.level}`;
      if (!this.#laneOf.has(key)) {
        this.#laneOf.set(key, this.lanes.length);
        insert(this.#lanesOf[of], this.lanes.length, last.get(of));
        this.lanes.push({ ...lane, track: of });
      }
      found[own] = this.#laneOf.get(key);
      last.set(of, found[own]);
    });
    return found;
  }

  #addTracks(tracks) {
    const found = new Int32Array(tracks.length);
    const last = new Map();
    const seen = new Map();
    tracks.forEach((track, own) => {
      const parent = track.parent >= 0 ? found[track.parent] : -1;
      const alike = `${parent}/${track.kind}/${track.number}/${track.name}`;
      seen.set(alike, (seen.get(alike) ?? 0) + 1); // slices that overlap lie on several tracks with one name
      const key = `${seen.get(alike)}/${alike}`;
      if (!this.#trackOf.has(key)) {
        this.#trackOf.set(key, this.tracks.length);
        if (!this.#below.has(parent)) this.#below.set(parent, []);
        insert(this.#below.get(parent), this.tracks.length, last.get(parent));
        this.tracks.push({ ...track, parent });
        this.#lanesOf.push([]);
      }
      found[own] = this.#trackOf.get(key);
      last.set(parent, found[own]);
    });
    return found;
  }

  /** Numbers of tracks and lanes from the top to the end. */
  get order() {
    const tracks = [];
    const put = (parent) => {
      for (const track of this.#below.get(parent) ?? []) {
        tracks.push(track);
        put(track);
      }
    };
    put(-1);
    return { tracks, lanes: tracks.flatMap((track) => this.#lanesOf[track]) };
  }
}

/** Inserts a track behind the one that precedes it in its block. */
function insert(list, one, before) {
  list.splice(before === undefined ? 0 : list.indexOf(before) + 1, 0, one);
}
