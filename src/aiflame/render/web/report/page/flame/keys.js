// The keyboard. Letters act only without Ctrl, Alt and Meta, so that the browser keeps its own.

export const KEYS = [
  ["click, Enter", "zoom to a frame; Escape: show everything again"],
  ["Backspace, u", "undo: what was shown before"],
  ["← → ↑ ↓", "walk through the frames; Home: the root"],
  ["wheel, drag", "scroll and pan; Ctrl with the wheel, + and −: zoom"],
  ["/", "search with a regular expression; module:, file: and kind: look there"],
  ["n, N", "next, previous match"],
  ["right click, m", "what can be done with a frame: focus, hide, merge, sandwich, copy"],
  ["f, x, s", "focus on the frame, hide its name, sandwich"],
  ["c, C", "copy the frame's stack, its name"],
  ["i, b", "callers at the top or the bottom; bottom-up"],
  ["o", "order: by name, by width, by time"],
  ["legend", "click: highlight a kind; Shift-click: hide it"],
];

const ORDERS = ["name", "width", "time"];

const ACTIONS = {
  "/": (view) => view.tools.focusSearch(),
  Escape: (view) => leave(view),
  Backspace: (view) => view.undo(),
  u: (view) => view.undo(),
  n: (view) => toMatch(view, 1),
  N: (view) => toMatch(view, -1),
  m: (view) => openMenu(view),
  ContextMenu: (view) => openMenu(view),
  c: (view) => view.menu.act("copyStack", subject(view)),
  C: (view) => view.menu.act("copyName", subject(view)),
  f: (view) => view.menu.act("focus", subject(view)),
  x: (view) => view.menu.act("hide", subject(view)),
  s: (view) => view.menu.act("sandwich", subject(view)),
  i: (view) => view.change({ dir: view.chart.down ? "up" : "down" }),
  b: (view) => view.change({ inverted: view.state.inverted ? "" : "1" }),
  o: (view) => view.change({ order: ORDERS[(ORDERS.indexOf(view.state.order) + 1) % ORDERS.length] }),
  "+": (view) => zoomBy(view, 0.5),
  "=": (view) => zoomBy(view, 0.5),
  "-": (view) => zoomBy(view, 2),
  0: (view) => view.zoomTo(0),
};

const WALK = {
  Enter: (view) => view.zoomTo(view.chart.current),
  " ": (view) => view.zoomTo(view.chart.current),
  ArrowLeft: (view) => walk(view, view.chart.beside(view.chart.current, -1)),
  ArrowRight: (view) => walk(view, view.chart.beside(view.chart.current, 1)),
  ArrowUp: (view) => walk(view, upOrDown(view, true)),
  ArrowDown: (view) => walk(view, upOrDown(view, false)),
  Home: (view) => walk(view, 0),
};

/** Whether the key was ours. */
export function onKey(view, event) {
  if (!view.model) return false;
  // Buttons, links and the menu keep the keys that work them.
  const act = event.target.closest?.("button, a, [role=menu]") ? undefined : WALK[event.key];
  const found = act ?? ACTIONS[event.key];
  if (!found) return false;
  found(view);
  return true;
}

/** The frame under the pointer, else the keyboard's. */
export function subject(view) {
  return view.chart.hovered >= 0 ? view.chart.hovered : view.chart.current;
}

function walk(view, node) {
  if (node < 0) return;
  view.stage.focus({ preventScroll: true });
  view.setCurrent(node);
}

/** Towards the callees, or back to the caller. In a sandwich the middle has callers above and callees below. */
function upOrDown(view, up) {
  const { chart, model } = view;
  const node = chart.current;
  const below = model.depth[node];
  const outwards = chart.down ? !up : up; // to greater depths
  if (below === 0) return model.widestChild(node, !outwards);
  return below > 0 === outwards ? model.widestChild(node) : model.parent[node];
}

function openMenu(view) {
  const node = subject(view);
  const box = view.stage.getBoundingClientRect();
  const [from, to] = view.chart.span(node);
  const x = (Math.max(from, 0) + Math.min(to, view.chart.pixels)) / 2;
  view.menu.open(node, box.x + x, box.y + view.chart.top(view.model.row(node)) + 18, true);
}

function leave(view) {
  const { state } = view;
  if (view.menu.shown) view.menu.close();
  else if (view.chart.zoomed || state.zoom) view.zoomTo(0);
  else if (state.search || state.lit) view.change({ search: "", lit: "" });
  else view.stage.blur();
}

function zoomBy(view, factor) {
  const { chart } = view;
  const [from, to] = chart.span(chart.current);
  const visible = to > 0 && from < chart.pixels;
  const x = visible ? (Math.max(from, 0) + Math.min(to, chart.pixels)) / 2 : chart.pixels / 2;
  const held = chart.window.left + (x / chart.pixels) * chart.window.width;
  const width = Math.min(chart.window.width * factor, chart.whole);
  chart.setWindow(held - (x / chart.pixels) * width, width);
  view.moved();
}

/** To the next match; where it cannot be seen, it is zoomed to. */
export function toMatch(view, step) {
  const { chart, found } = view;
  if (!found) return;
  const node = found.next(chart.current, step, 0);
  if (node < 0) return;
  view.setCurrent(node);
  const [from, to] = chart.span(node);
  if (to - from < 3 || to <= 0 || from >= chart.pixels) view.zoomTo(node);
}
