// The words for a cell of the heat map.

import { amount, percent, shortLabel } from "../../../text.js";
import { element } from "../ui/dom.js";
import { moment } from "../ui/time_text.js";

const DECADES = 3; // of a logarithmic scale

export const named = {
  /** A value's place on the scale of colours, from 0 to 1. */
  share(value, most, logarithmic) {
    if (most <= 0) return 0;
    return logarithmic ? Math.max(0, 1 + Math.log10(value / most) / DECADES) : value / most;
  },

  /** The other way round. */
  value(share, most, logarithmic) {
    return logarithmic ? most * 10 ** (DECADES * (share - 1)) : share * most;
  },
};

/** Lines of a tooltip; `part`: the cell's most frequent kernels, functions, layers and phases, once the worker has answered. */
export function hoverText({ grid, metric, cell, value, together, part }) {
  const lines = [element("strong", {}, valued(value, metric))];
  const took = spanOf(grid, cell);
  const busy = possible(value, took.length, metric);
  if (busy) lines.push(element("div", {}, busy));
  lines.push(element("div", {}, together > 1 ? `the mean of ${together} columns from ${took.text}` : took.text));
  for (const [segment, title] of [["kernel", ""], ["layer", "layer "], ["phase", ""]]) {
    const top = part?.lists[segment][0];
    if (top && part.total > 0) lines.push(element("div", {}, `${title}${top.name}: ${percent(top.value, part.total)}`));
  }
  return lines;
}

/** A value as a share of the most that is possible. */
export function possible(value, length, { unit, domain }) {
  if (unit !== "ns" || length <= 0) return "";
  if (domain.domain === "device") return `${percent(value, length)} of the time of one GPU`;
  const busy = (value / length).toLocaleString("en-US", { maximumFractionDigits: 2 });
  return domain.domain === "cpu" ? `${busy} CPUs busy` : `${busy} threads`;
}

/** The time of a cell: {text, length} */
function spanOf(grid, { column, row }) {
  if (grid.kind === "time") {
    const begin = grid.begin(column * grid.rows + row);
    return { text: `${moment(begin, grid.cell)} … ${moment(begin + grid.cell, grid.cell)}`, length: grid.cell };
  }
  const step = grid.steps[column];
  const length = (step.end - step.begin) / grid.rows;
  const place = `${Math.round((100 * row) / grid.rows)}–${Math.round((100 * (row + 1)) / grid.rows)}%`;
  return { text: `step ${step.number}, ${place} of its ${amount(step.end - step.begin, "ns")}`, length };
}

/** `12 ms GPU time`, `79 GPU samples` */
export function valued(value, metric) {
  const number = metric.unit === "samples" ? rounded(value).toLocaleString("en-US") : amount(rounded(value), metric.unit);
  return `${number} ${shortLabel(metric)}`;
}

export function rounded(value) {
  return value >= 10 ? Math.round(value) : Number(value.toPrecision(3));
}

/** How the legend writes a value: of steps it is a value for each ms of their cells. */
export function legendText({ unit, domain }, by) {
  if (by === "time") return (value) => (unit === "samples" ? rounded(value).toLocaleString("en-US") : amount(rounded(value), unit));
  if (unit === "samples") return (value) => `${rounded(value).toLocaleString("en-US")}/ms`;
  if (unit !== "ns") return (value) => `${amount(rounded(value), unit)}/ms`;
  return domain.domain === "device" ? (value) => percent(value, 1e6) : (value) => (value / 1e6).toFixed(1);
}

/** Explains times that are not exact: a sample has its kernel and the window of time that it came in. */
export function howKnown({ unit, domain }, by, steps) {
  const { window_ns: window } = domain;
  if (unit !== "samples" || !window) return "";
  const known = `A sample knows its kernel and the window of ${amount(window, "ns")} that it came in, which may be a later one`;
  if (by === "time") return `${known}: within a window samples lie where their kernel ran.`;
  const lengths = steps.map((step) => step.end - step.begin).sort((one, other) => one - other);
  const usual = lengths[lengths.length >> 1] ?? 0;
  const alike = window > usual ? ` Steps take ${amount(usual, "ns")}: those that lie in one window look alike.` : "";
  return `${known}: those of a window are divided over its steps by the time that their kernel ran in each.${alike}`;
}
