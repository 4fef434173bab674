// Where tracks and lanes stand, from the top of the timeline to its end, and which are folded.

export const LANE = 18;
const HEADER = 22;
const GAP = 6;

/**
 * @param about what the call timeline.about gave
 * @param {Set<number>} turned tracks that a person has folded or opened
 * @returns {{rows: object[], height: number}} rows with y and height: headers {track, title, depth} and lanes {lane, label, track}
 */
export function layout(about, turned) {
  const rows = [];
  const lanesOf = new Map();
  about.lanes.forEach((lane, number) => lanesOf.set(lane.track, [...(lanesOf.get(lane.track) ?? []), number]));
  const hidden = new Set();
  let y = 0;
  let before = null;
  about.tracks.forEach((track, number) => {
    if (hidden.has(track.parent)) {
      hidden.add(number);
      return;
    }
    const lanes = lanesOf.get(number) ?? [];
    const folded = isFolded(about, number, turned);
    const depth = depthOf(about, number);
    if (isOwner(track)) {
      y += rows.length && track.kind !== "process" ? GAP : 0;
      rows.push({ y, height: HEADER, track: number, title: track.name, depth, folded, folds: true });
      y += HEADER;
      if (folded) hidden.add(number);
    }
    const shown = folded ? (isOwner(track) ? [] : lanes.filter((lane) => about.lanes[lane].level === 0).slice(0, 1)) : lanes;
    for (const [place, lane] of shown.entries()) {
      const label = isOwner(track) || track.kind === "purpose" ? labelOf(about, lane) : place === 0 ? plainName(about, track) : "";
      const continued = !isOwner(track) && before && before.name === track.name && before.parent === track.parent;
      const folds = place === 0 && !isOwner(track) && lanes.length > 1;
      rows.push({ y, height: LANE, lane, track: number, depth, label: continued ? "" : label, folds, folded });
      y += LANE;
    }
    if (lanes.length) before = track;
  });
  return { rows, height: y + GAP };
}

/** The stacks of samples are folded where devices tell more. */
export function isFolded(about, number, turned) {
  const usual = about.tracks[number].kind === "samples" && about.tracks.some((track) => track.kind === "stream");
  return usual !== turned.has(number);
}

function isOwner(track) {
  return track.kind === "process" || track.kind === "thread" || track.kind === "device";
}

function depthOf(about, number) {
  let depth = 0;
  for (let at = about.tracks[number].parent; at >= 0; at = about.tracks[at].parent) depth++;
  return depth;
}

/** A kind is named once, at its first level. */
function labelOf(about, lane) {
  const { kind, level, track } = about.lanes[lane];
  const first = lane === 0 || about.lanes[lane - 1].track !== track || about.lanes[lane - 1].kind !== kind;
  return first || level === 0 ? about.kinds[kind].label : "";
}

/** Without its owner's name, which stands above it. */
function plainName(about, track) {
  const owner = track.parent >= 0 ? about.tracks[track.parent].name : "";
  const name = owner && track.name.startsWith(`${owner}: `) ? track.name.slice(owner.length + 2) : track.name;
  return name;
}
