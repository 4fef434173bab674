// The bars of a row in a window of the graph, and their labels. Neighbours narrower than a pixel share one bar.

export const NARROW = 1; // px
const LABELLED = 24; // px

/**
 * Calls `bar(node, from, to, many, match, place, end)` for each visible bar of a row; x in px. A bar of `many` stands for the nodes from
 * `place` to `end` of `model.rows`.
 * @param {import("./model.js").Model} model
 * @param {number} row
 * @param {{left: number, width: number}} window
 * @param {number} pixels
 * @param {import("./search.js").Found | null} found
 * @param {(node: number, from: number, to: number, many: boolean, match: boolean, place: number, end: number) => void} bar
 */
export function bars(model, row, window, pixels, found, bar) {
  const { rows, left, width, frames, frame } = model;
  const scale = pixels / window.width;
  const end = model.starts[row + 1];
  /** @type {{node: number, from: number, to: number, kind: number, found: boolean, place: number, end: number} | null} */
  let run = null;
  const endRun = () => {
    if (run) bar(run.node, run.from, run.to, true, run.found, run.place, run.end);
    run = null;
  };
  let place = model.firstAt(row, window.left);
  while (place < end) {
    const node = rows[place];
    const from = (left[node] - window.left) * scale;
    if (from >= pixels) break;
    const wide = width[node] * scale;
    if (wide >= NARROW) {
      endRun();
      bar(node, from, from + wide, false, found !== null && found.nodes[node] === 1, place, place + 1);
      place++;
      continue;
    }
    // All that ends within this pixel goes into it.
    let next = model.firstAt(row, window.left + (from + NARROW / 2) / scale, place);
    if (next <= place) next = place + 1;
    const to = (model.right(rows[next - 1]) - window.left) * scale;
    if (to > from) {
      const hit = found?.any(place, next) ?? false;
      const kind = frames.kind[frame[node]];
      if (run && from - run.to < 0.5 && run.found === hit && (run.kind === kind || run.to - run.from < 3)) {
        run.to = to;
        run.end = next;
      } else {
        endRun();
        run = { node, from, to, kind, found: hit, place, end: next };
      }
    }
    place = next;
  }
  endRun();
}

/**
 * A bar's label, cut to its room, or "".
 * @param {import("./model.js").Model} model
 * @param {number} node
 * @param {number} wide
 * @param {import("../text.js").Ruler} ruler
 */
export function labelFor(model, node, wide, ruler) {
  return wide < LABELLED ? "" : ruler.fit(model.name(node).slice(0, 1000), wide - 8);
}
