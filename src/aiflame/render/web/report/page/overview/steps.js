// Steps one after another: a bar each, as high as the step is long, with the device's time in it; the slowest is marked.

import { amount, percent } from "../../../text.js";
import { drawn, element } from "../ui/dom.js";
import { STATES } from "./occupancy.js";

const HEIGHT = 64;
const WIDTH = 1000;
const CUT = 3; // times the median: longer bars are cut, else a first step that compiles flattens all others
const MOST_ROWS = 4;
const STANDS_OUT = 1.05; // times the median: a step that is hardly longer than the others is none to look at

export function stepsOf(app) {
  const { steps, summary } = app.summary;
  if (!summary.steps || !steps.length) return null;
  const { count, min_ns: min, median_ns: median, max_ns: max, slowest, slowest_ns: longest } = summary.steps;
  const lengths = `median ${amount(median, "ns")}, ${amount(min, "ns")} to ${amount(max, "ns")}`;
  const told = element("span.soft", {}, `${count.toLocaleString("en-US")}: ${lengths}`);
  const marked = count > 1 && longest >= STANDS_OUT * median;
  const share = percent(longest, median).replace(/\.\d+/, "");
  const words = `slowest after warm-up: Step ${slowest}, ${amount(longest, "ns")} (${share} of the median)`;
  const mark = marked ? app.link(".mark", "flame", stepState(slowest), words) : null;
  const several = steps.length > 1;
  const rows = steps.slice(0, MOST_ROWS).map((series) => {
    const name = several ? element("span.soft.fine", {}, series.process) : null;
    return element("div.series", {}, name, chart(app, series, median, marked ? slowest : -1, longest));
  });
  const head = element("div.head", {}, element("h2", {}, "Steps"), told, mark, app.link(".more", "scope", { by: "step" }, "Step by step"));
  return element("section.card.steps", { "aria-label": "Steps" }, head, ...rows);
}

function stepState(number) {
  return { by: "step", search: `^Step\\.${number}$` };
}

function chart(app, series, median, slowest, longest) {
  const count = series.took_ns.length;
  const limit = Math.min(Math.max(...series.took_ns), CUT * median);
  const pitch = Math.min(WIDTH / count, 40);
  const gap = pitch < 4 ? 0 : 2; // finer gaps would make a pattern of their own
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "steps-chart", role: "img" });
  svg.setAttribute("aria-label", `${series.of} steps, the longest ${amount(Math.max(...series.took_ns), "ns")}`);
  for (let at = 0; at < count; at++) svg.append(bar(app, series, at, { x: at * pitch, width: pitch - gap, limit, slowest, longest }));
  const y = HEIGHT - (median / limit) * (HEIGHT - 6);
  svg.append(drawn("line", { x1: 0, x2: pitch * count, y1: y, y2: y, class: "median" }));
  return svg;
}

function bar(app, series, at, { x, width, limit, slowest, longest }) {
  const took = series.took_ns[at];
  const number = series.step[at];
  const group = drawn("g", { class: number === slowest && took === longest ? "step slowest" : "step" });
  group.append(drawn("title"));
  group.firstChild.textContent = `Step ${number}: ${amount(took, "ns")}${told(series, at)}`;
  group.append(drawn("rect", { x, y: 0, width, height: HEIGHT, class: "reach" }));
  const room = HEIGHT - 6;
  const height = (Math.min(took, limit) / limit) * room;
  let y = HEIGHT;
  const parts = STATES.map(([name]) => [name, series.states[name]?.[at] ?? 0]);
  const whole = parts.reduce((sum, [, value]) => sum + value, 0);
  for (const [name, value] of whole ? parts : [["busy", 1]]) {
    const part = (value / (whole || 1)) * height;
    y -= part;
    if (part > 0) group.append(drawn("rect", { x, y, width, height: part, class: name }));
  }
  if (took > limit) group.append(drawn("path", { d: `M${x} ${y + 7}l${width} -3v3l${-width} 3z`, class: "tear" }));
  if (group.classList.contains("slowest")) {
    group.append(drawn("rect", { x, y: Math.max(0, y - 5), width: Math.max(width, 4), height: 3, class: "flag" }));
  }
  group.addEventListener("click", () => app.go("flame", stepState(number)));
  return group;
}

function told(series, at) {
  const parts = STATES.map(([name, word]) => [word, series.states[name]?.[at] ?? 0]);
  const whole = parts.reduce((sum, [, value]) => sum + value, 0);
  return whole ? ` (${parts.filter(([, value]) => value).map(([word, value]) => `${word} ${percent(value, whole)}`).join(", ")})` : "";
}
