// A counter with parts, such as memory by category: the parts on top of each other, and their colours.

import { colorsOfParts } from "../ui/part_colors.js";

export const STACK = 96; // px
const LINE = 12;
const MOST_NAMES = Math.floor((STACK - 6) / LINE);

/** For each counter with parts, the places of these. */
export function partsOf(counters) {
  const parts = new Map();
  counters.forEach(({ of }, counter) => of !== undefined && parts.set(of, [...(parts.get(of) ?? []), counter]));
  return parts;
}

/** The colour of each name of a part: parts of several counters that have one name have one colour. `color`: that of a frame. */
export function colorsOf(counters, color) {
  const names = [...new Set(counters.flatMap(({ part }) => (part === undefined ? [] : [part])))];
  return colorsOfParts(names, color);
}

/** `from` … `to`: the columns of `values` (an array for each part) that are in sight; `x` and `height` say where a column and a value stand. */
export function drawStack(context, { parts, values, colors, bottom, from, to, x, wide, height }) {
  const below = new Float32Array(Math.max(to - from, 0));
  parts.forEach(({ part }, place) => {
    context.fillStyle = colors.get(part);
    for (let at = from; at < to; at++) {
      const value = values[place][at];
      if (!(value > 0)) continue;
      const low = height(below[at - from]);
      below[at - from] += value;
      context.fillRect(x(at), bottom - height(below[at - from]), wide, height(below[at - from]) - low);
    }
  });
}

/** The names of the largest parts, in the gutter beside them. */
export function drawNames(context, { parts, colors, y, indent, gutter, fit, ink }) {
  const largest = [...parts].sort((one, other) => other.top - one.top).slice(0, MOST_NAMES);
  largest.forEach(({ part }, place) => {
    const middle = y + 3 + LINE * (place + 0.5);
    context.fillStyle = colors.get(part);
    context.fillRect(indent + 12, middle - 4, 8, 8);
    context.fillStyle = ink;
    context.fillText(fit(part, gutter - indent - 30), indent + 24, middle + 0.5);
  });
}
