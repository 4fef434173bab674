// The critical path of a step: a row for each rank that it goes through, and how it goes from one to the other.

import { amount, percent } from "../../../text.js";
import { drawn, element, wide } from "../ui/dom.js";
import { moment, tickStep } from "../ui/time_text.js";

const ROW = 22;
const WIDTH = 1000;
const SCALE = 20;
const MOST_RANKS = 12;
const CLASSES = ["busy", "communication", "decides", "idle"]; // kinds of stretches, numbered as in render/report/ranks.py
const SAYS = ["works", "communicates, and is held up by it", "works, and all others wait"];

export class PathPicture {
  constructor() {
    this.body = element("div.rank-path");
  }

  /** `path`: {step, took, communication}; `stretches`, `work` as `ranks.path` has them; `step(text)`: links. */
  show(path, { stretches, work }) {
    const shown = Array.from(work.rank).slice(0, MOST_RANKS).sort((one, other) => one - other);
    const rows = shown.map((rank) => this.#row(rank, path, stretches, work));
    const rest = work.rank.length - shown.length;
    const more = rest > 0 ? element("p.soft.fine", {}, `and ${rest.toLocaleString("en-US")} more ranks, each with a smaller part`) : null;
    this.body.replaceChildren(...rows, scaleOf(path.took), ...(more ? [more] : []));
  }

  #row(rank, path, stretches, work) {
    const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${ROW}`, preserveAspectRatio: "none", class: "rank-path-bars", "aria-hidden": "true" });
    for (const [begin, end, does, text] of merged(rank, path, stretches)) {
      const rect = drawn("rect", { x: begin, y: 3, width: Math.max(end - begin, 0.6), height: ROW - 6, class: CLASSES[does] }, drawn("title"));
      rect.firstChild.textContent = text;
      svg.append(rect);
    }
    const took = work.took[work.rank.indexOf(rank)];
    const told = `${amount(took, "ns")}, ${percent(took, path.took)}`;
    return element("div.rank-path-row", {}, element("span.rank-path-name", {}, `rank ${rank}`), svg, element("span.soft", { title: "work on the path" }, told));
  }
}

/** A stretch narrower than a pixel joins its neighbour of the same kind. */
function merged(rank, path, { rank: ranks, does, begin, took }) {
  const found = [];
  const x = (ns) => (ns / Math.max(path.took, 1)) * WIDTH;
  for (let at = 0; at < ranks.length; at++) {
    if (ranks[at] !== rank) continue;
    const [from, to] = [x(begin[at]), x(begin[at] + took[at])];
    if (at === 0 && from > 0.5) found.push([0, from, 3, `rank ${rank} had not begun the step: others had`]);
    const last = found.at(-1);
    if (last && last[2] === does[at] && from - last[1] < 0.5 && to - last[0] < 1.5) last[1] = to;
    else found.push([from, to, does[at], `rank ${rank} ${SAYS[does[at]]}: ${amount(took[at], "ns")}, ${amount(begin[at], "ns")} after the step's beginning`]);
  }
  return found;
}

function scaleOf(took) {
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${SCALE}`, preserveAspectRatio: "none", class: "rank-path-scale", "aria-hidden": "true" });
  const labels = element("span.rank-path-ticks");
  const step = tickStep(took / 6);
  for (let at = 0; at <= took; at += step) {
    svg.append(drawn("rect", { x: (at / took) * WIDTH, y: 0, width: 1, height: 5 }));
    const label = element("span", {}, moment(at, step));
    label.style.left = `${(at / took) * 100}%`;
    labels.append(label);
  }
  return element("div.rank-path-row", {}, element("span"), element("span.rank-path-under", {}, svg, labels), element("span"));
}

export function legend() {
  const chips = [["decides", SAYS[2]], ["busy", "works, others came with it"], ["communication", "communicates"]];
  return element("ul.legend", {}, ...chips.map(([name, text]) => element("li", {}, element(`i.swatch.${name}`), text)));
}

/** A stacked bar of shares. */
export function parts(row, states) {
  const bar = element("span.stack", { "aria-hidden": "true" });
  for (const [name, word] of states) {
    if (!(row[name] > 0)) continue;
    bar.append(wide(element(`span.${CLASS_OF[name] ?? name}`, { title: `${word}: ${percent(row[name], 1)}` }), row[name]));
  }
  return bar;
}

const CLASS_OF = { compute: "busy", exposed: "communication" };
