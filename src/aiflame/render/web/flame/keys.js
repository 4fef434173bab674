// The keyboard on a flame graph. Letters act only without Ctrl, Alt and Meta, so that the browser keeps its own.

/**
 * @typedef {import("./viewport.js").Viewport} Viewport
 * @typedef {{chart: Viewport, undo: () => void, zoomTo: (node: number) => void, walkTo: (node: number) => void}} Viewer
 */

/** @type {[string, string][]} */
export const HELP = [
  ["click, Enter", "zoom to a frame; Escape, 0: show everything again"],
  ["Backspace, u", "undo: what was shown before"],
  ["← → ↑ ↓", "walk through the frames; Home: the root"],
  ["/", "search with a regular expression; module:, file: and kind: look there"],
  ["n, N", "next, previous match"],
  ["c, C", "copy the frame's stack, its name"],
  ["i", "callers at the top or the bottom"],
  ["legend", "click: highlight a kind; Shift-click: hide it"],
];

/** @type {Record<string, (viewer: any) => void>} */
const ACTIONS = {
  0: (viewer) => viewer.zoomTo(0),
  Backspace: (viewer) => viewer.undo(),
  u: (viewer) => viewer.undo(),
  n: (viewer) => toMatch(viewer, 1),
  N: (viewer) => toMatch(viewer, -1),
  "/": (viewer) => viewer.focusSearch(),
  Escape: (viewer) => viewer.escape(),
  c: (viewer) => viewer.copyStack(subject(viewer)),
  C: (viewer) => viewer.copyName(subject(viewer)),
  i: (viewer) => viewer.flip(),
};

/** @type {Record<string, (chart: Viewport) => number>} */
const WALK = {
  ArrowLeft: (chart) => chart.beside(chart.current, -1),
  ArrowRight: (chart) => chart.beside(chart.current, 1),
  ArrowUp: (chart) => upOrDown(chart, true),
  ArrowDown: (chart) => upOrDown(chart, false),
  Home: () => 0,
};

/**
 * Acts on a key; true if the flame graph has it. `own`: keys of this viewer alone.
 * @param {any} viewer
 * @param {KeyboardEvent} event
 * @param {Record<string, (viewer: any) => void>} own
 */
export function onKey(viewer, { key, target }, own) {
  // Buttons, links and the menu keep the keys that work them.
  const elsewhere = /** @type {Element} */ (target).closest?.("button, a, [role=menu]");
  const walk = WALK[key];
  if (!elsewhere && walk) {
    const node = walk(viewer.chart);
    if (node >= 0) viewer.walkTo(node);
    return true;
  }
  const enter = !elsewhere && (key === "Enter" || key === " ");
  const act = enter ? () => viewer.zoomTo(viewer.chart.current) : (own[key] ?? ACTIONS[key]);
  act?.(viewer);
  return Boolean(act);
}

/** The frame under the pointer, else the keyboard's. */
export function subject(/** @type {Viewer} */ { chart }) {
  return chart.hovered >= 0 ? chart.hovered : chart.current;
}

/**
 * Goes to the next match, and zooms to it where it is out of sight.
 * @param {Viewer & {setCurrent: (node: number) => void}} viewer
 * @param {1 | -1} step
 */
export function toMatch(viewer, step) {
  const { chart } = viewer;
  const node = chart.found?.next(chart.current, step, 0) ?? -1;
  if (node < 0) return;
  viewer.setCurrent(node);
  const [from, to] = chart.span(node);
  if (to - from < 3 || to <= 0 || from >= chart.pixels) viewer.zoomTo(node);
}

/**
 * Towards the callees, or back to the caller. In a sandwich the middle has callers above and callees below.
 * @param {Viewport} chart
 * @param {boolean} up
 */
function upOrDown({ model, current, down }, up) {
  const below = model.depth[current];
  const outwards = down ? !up : up; // to greater depths
  if (below === 0) return model.widestChild(current, !outwards);
  return below > 0 === outwards ? model.widestChild(current) : model.parent[current];
}
