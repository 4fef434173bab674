// Two pictures of kernels below the peaks of their device, both with logarithmic scales. Left: those without work for tensor cores, by their mean time and the rate at which
// they move bytes. Right, the roofline: the others, by their work for each byte of memory and the rate of that work.

import { classOf } from "../../../limit_classes.js";
import { clip, Ruler } from "../../../text.js";
import { drawn } from "../ui/dom.js";
import { bytesPerSecond, operations } from "./words.js";

const NO_WORK = 0.002; // of the tensor cores' full rate: conversions and the like, no matrix products
const TALL = 440;
const NARROW = 760; // px: below, one picture stands under the other
const EDGE = { left: 70, right: 26, top: 22, bottom: 44 };
const DOT = { least: 4, most: 17 };
const LABELS = 6;
const MORE = 1.6; // the scales reach beyond the peaks
const LEAST_SHARE = 1e-4; // smaller shares of a peak stand at the lower edge

/** Draws rows into `svg`; `lead(row)` is a point's link (href), `met(row, event)` and `left()` say what the pointer or the focus is at. */
export function draw(svg, rows, device, wide, { lead, met, left }) {
  svg.replaceChildren();
  const plain = rows.filter((row) => row.tensor < NO_WORK);
  const working = rows.filter((row) => row.tensor >= NO_WORK);
  const stacked = wide < NARROW && plain.length && working.length;
  const half = plain.length && working.length && !stacked ? Math.round(wide * 0.4) : wide;
  const boxes = { plain: { x: 0, y: 0, wide: half }, working: { x: plain.length && !stacked ? half : 0, y: stacked ? TALL : 0, wide: plain.length && !stacked ? wide - half : wide } };
  const tall = stacked ? 2 * TALL : TALL;
  svg.setAttribute("viewBox", `0 0 ${wide} ${tall}`);
  svg.setAttribute("width", wide);
  svg.setAttribute("height", tall);
  const most = Math.max(...rows.map((row) => row.took), 1);
  const act = { lead, met, left, most };
  if (plain.length) bandwidth(svg, boxes.plain, plain, device, act);
  if (working.length) roofline(svg, boxes.working, working, device, act);
  svg.append(...svg.querySelectorAll(".limit-peak")); // no point covers the peaks' labels
}

function bandwidth(svg, box, rows, device, act) {
  const mean = (row) => row.took / Math.max(row.launches, 1);
  const x = logScale(rows.map(mean), [box.x + EDGE.left, box.x + box.wide - EDGE.right], [1000, 100_000]);
  const y = shareScale(rows.map((row) => row.memory), box);
  frame(svg, box, "Without tensor cores: rate of memory", "mean time of a launch");
  ticks(svg, box, x, y, time, bytesPerSecond, device.memory);
  unreachable(svg, `M${x.from},${y.at(1)}H${x.to}V${box.y + EDGE.top}H${x.from}Z`);
  line(svg, [[x.from, y.at(1)], [x.to, y.at(1)]], `memory ${bytesPerSecond(device.memory)}`);
  points(svg, box, rows.map((row) => ({ row, x: x.at(mean(row)), y: y.at(row.memory) })), y.at(1), act);
}

function roofline(svg, box, rows, device, act) {
  const ridge = device.bf16 / device.memory;
  const intensity = (row) => (row.memory > 0 ? (row.tensor / row.memory) * ridge : Number.POSITIVE_INFINITY);
  const known = rows.map(intensity).filter(Number.isFinite);
  const x = logScale(known, [box.x + EDGE.left, box.x + box.wide - EDGE.right], [ridge / 10, ridge * 4]);
  const y = shareScale(rows.map((row) => row.tensor), box);
  frame(svg, box, "Roofline of tensor cores", "operations for each byte of memory");
  ticks(svg, box, x, y, (value) => value.toLocaleString("en-US"), operations, device.bf16);
  const start = Math.max(y.least, x.least / ridge);
  const roof = [[x.at(start * ridge), y.at(start)], [x.at(ridge), y.at(1)], [x.to, y.at(1)]];
  unreachable(svg, `M${roof.map((at) => at.join(",")).join("L")}V${box.y + EDGE.top}H${x.from}V${roof[0][1]}Z`);
  line(svg, roof, `tensor cores ${operations(device.bf16)} in bf16`);
  sloping(svg, roof, `memory ${bytesPerSecond(device.memory)}`);
  points(svg, box, rows.map((row) => ({ row, x: x.at(intensity(row)), y: y.at(row.tensor) })), y.at(1), act);
}

/** A scale that covers the values and a usual range, in whole powers of ten. */
function logScale(values, [from, to], [low, high]) {
  const least = 10 ** Math.floor(Math.log10(Math.min(low, ...values)));
  const most = 10 ** Math.ceil(Math.log10(Math.max(high, ...values) * 1.0001));
  const each = (to - from) / Math.log10(most / least);
  const at = (value) => Math.min(to, Math.max(from, from + each * Math.log10(Math.max(value, least) / least)));
  return { least, most, from, to, at };
}

/** The vertical scale of shares of a peak, from the lowest value's power of ten to a little above the peak. */
function shareScale(values, box) {
  const lowest = Math.max(LEAST_SHARE, Math.min(...values.filter((value) => value > 0), 0.1));
  const least = 10 ** Math.floor(Math.log10(lowest));
  const [bottom, top] = [box.y + TALL - EDGE.bottom, box.y + EDGE.top];
  const each = (bottom - top) / Math.log10(MORE / least);
  return { least, at: (share) => Math.min(bottom, Math.max(top, bottom - each * Math.log10(Math.max(share, least) / least))) };
}

function frame(svg, box, title, below) {
  const [left, right, bottom] = [box.x + EDGE.left, box.x + box.wide - EDGE.right, box.y + TALL - EDGE.bottom];
  svg.append(drawn("text", { x: left, y: box.y + 12, class: "limit-title" }, title));
  svg.append(drawn("text", { x: (left + right) / 2, y: bottom + 36, class: "limit-axis middle" }, below));
  svg.append(drawn("path", { d: `M${left},${box.y + EDGE.top}V${bottom}H${right}`, class: "limit-frame" }));
}

/** `across`, `up`: words for values; the vertical scale has shares of `peak`. */
function ticks(svg, box, x, y, across, up, peak) {
  const bottom = box.y + TALL - EDGE.bottom;
  const every = Math.ceil((Math.log10(x.most / x.least) * 62) / (x.to - x.from)); // room for a label
  for (let value = x.least, number = 0; value <= x.most * 1.001; value *= 10, number++) {
    const at = x.at(value);
    svg.append(drawn("path", { d: `M${at},${box.y + EDGE.top}V${bottom}`, class: "limit-grid" }));
    if (number % every === 0) svg.append(drawn("text", { x: at, y: bottom + 16, class: "limit-tick middle" }, across(value)));
  }
  const steps = y.least < 1e-3 ? [1] : y.least < 0.1 ? [1, 3] : [1, 2, 5];
  for (let power = 10 ** Math.floor(Math.log10(peak * y.least)); power <= peak * MORE; power *= 10) {
    for (const value of steps.map((step) => step * power)) {
      if (value < peak * y.least || value > peak * MORE) continue;
      const at = y.at(value / peak);
      svg.append(drawn("path", { d: `M${x.from},${at}H${x.to}`, class: "limit-grid" }));
      svg.append(drawn("text", { x: x.from - 6, y: at + 4, class: "limit-tick end" }, up(value)));
    }
  }
}

function unreachable(svg, path) {
  svg.append(drawn("path", { d: path, class: "limit-beyond" }));
}

function line(svg, places, label) {
  svg.append(drawn("path", { d: `M${places.map((at) => at.join(",")).join("L")}`, class: "limit-roof" }));
  const [x, y] = places.at(-1);
  svg.append(drawn("text", { x: x - 4, y: y - 6, class: "limit-peak end" }, label));
}

/** A label along the rising part of a roof, above it: `roof` begins with its two ends. */
function sloping(svg, roof, label) {
  const [[x0, y0], [x1, y1]] = roof;
  const angle = (Math.atan2(y1 - y0, x1 - x0) * 180) / Math.PI;
  const [x, y] = [x0 + (x1 - x0) * 0.45, y0 + (y1 - y0) * 0.45];
  svg.append(drawn("text", { x, y: y - 6, class: "limit-peak middle", transform: `rotate(${angle} ${x} ${y})` }, label));
}

/** `peak`: the place of the peak, above which names stand in the way of its own. */
function points(svg, box, dots, peak, { lead, met, left, most }) {
  const sized = dots.map((dot) => ({ ...dot, r: DOT.least + (DOT.most - DOT.least) * Math.sqrt(dot.row.took / most) }));
  const sorted = sized.sort((one, other) => other.row.took - one.row.took); // small ones lie on large ones
  for (const { row, x, y, r } of sorted) {
    const link = drawn("a", { href: lead(row), class: "limit-point", "data-name": row.name, "aria-label": row.short });
    link.append(drawn("circle", { cx: x, cy: y, r, class: `reach-${classOf(row.limit)}` }));
    for (const event of ["pointerenter", "pointermove", "focus"]) link.addEventListener(event, (at) => met(row, at, link));
    for (const event of ["pointerleave", "blur"]) link.addEventListener(event, () => left());
    svg.append(link);
  }
  label(svg, box, sorted, peak + 6);
}

/** The names of the largest below `top`, where they cover no other name. */
function label(svg, box, sorted, top) {
  const ruler = new Ruler("11px system-ui, sans-serif");
  const taken = [];
  for (const { row, x, y, r } of sorted.slice(0, LABELS)) {
    const text = clip(row.short, 26);
    const wide = [...text].reduce((sum, one) => sum + ruler.character(one), 0);
    const edge = box.x + box.wide - EDGE.right;
    const start = Math.max(box.x + EDGE.left + 2, Math.min(x - wide / 2, edge - wide));
    const places = [y + r + 12, y - r - 5].map((at) => ({ from: start, to: start + wide, y: at }));
    const place = places.find((one) => one.y < box.y + TALL - EDGE.bottom && one.y > top && isFree(one, row, sorted, taken));
    if (!place) continue;
    taken.push(place);
    svg.append(drawn("text", { x: place.from, y: place.y, class: "limit-name" }, text));
  }
}

/** Whether a label covers neither another label nor another point. */
function isFree(place, row, dots, taken) {
  const near = (one) => Math.abs(one.y - place.y) < 13 && one.from < place.to + 4 && place.from < one.to + 4;
  const covers = (dot) => dot.row !== row && dot.y > place.y - 12 - dot.r && dot.y < place.y + 3 + dot.r && dot.x > place.from - dot.r && dot.x < place.to + dot.r;
  return !taken.some(near) && !dots.some(covers);
}

function time(ns) {
  const [size, unit] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${ns / size} ${unit}`;
}
