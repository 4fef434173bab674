// The keys of the report's flame graph that the picture alone (flame_svg/) does not have.

import { HELP, subject } from "../../../flame/keys.js";

export const KEYS = [
  ...HELP,
  ["wheel, drag", "scroll and pan; Ctrl with the wheel, + and −: zoom"],
  ["right click, m", "actions for a frame: focus, hide, merge, sandwich, copy"],
  ["f, x, s", "focus on the frame, hide its name, sandwich"],
  ["p", "my code only: packages and libraries fold into the line that called them"],
  ["b", "bottom-up"],
  ["o", "order: by name, by width, by time"],
  ["k", "colours: by kind, by % of the device's limit"],
];

const ORDERS = ["name", "width", "time"];

export const OWN = {
  m: openMenu,
  ContextMenu: openMenu,
  f: (view) => view.menu.act("focus", subject(view)),
  x: (view) => view.menu.act("hide", subject(view)),
  s: (view) => view.menu.act("sandwich", subject(view)),
  p: (view) => view.change({ mine: view.state.mine ? "" : "1" }),
  b: (view) => view.change({ inverted: view.state.inverted ? "" : "1" }),
  o: (view) => view.change({ order: ORDERS[(ORDERS.indexOf(view.state.order) + 1) % ORDERS.length] }),
  k: (view) => view.info.limits.includes(view.model.metric.name) && view.change({ color: view.state.color ? "" : "limit" }),
  "+": (view) => zoomBy(view, 0.5),
  "=": (view) => zoomBy(view, 0.5),
  "-": (view) => zoomBy(view, 2),
};

function openMenu(view) {
  const node = subject(view);
  const box = view.stage.getBoundingClientRect();
  const [from, to] = view.chart.span(node);
  const x = (Math.max(from, 0) + Math.min(to, view.chart.pixels)) / 2;
  view.menu.open(node, box.x + x, box.y + view.chart.top(view.model.row(node)) + 18, true);
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
