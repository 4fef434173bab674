// The words for a slice of the timeline.

import { amount, counted, percent } from "../../../text.js";
import { element } from "../ui/dom.js";
import { moment } from "../ui/time_text.js";

/** Lines of a tooltip: `piece` as drawn, `slice` as the worker knows it (the longest of several). */
export function hoverText(about, piece, slice) {
  const length = piece.end - piece.begin;
  if (piece.many > 1) {
    return [
      element("strong", {}, `${piece.many.toLocaleString("en-US")} ${about.kinds[piece.kind].label}`),
      line(`${amount(length, "ns")} from ${moment(piece.begin, length / 100)}, ${Math.round(piece.level / 2.55)}% of it busy`),
      line(`the longest: ${slice.name}, ${amount(slice.end - slice.begin, "ns")}`),
    ];
  }
  const lines = [element("strong", {}, slice.name), line(`${lasted(slice, length)} from ${moment(piece.begin, length / 100)}`)];
  const { phase = [], layer = [], op = [] } = slice.facts;
  const meaning = [slice.step >= 0 ? `step ${slice.step}` : "", ...phase, ...layer, ...op].filter(Boolean).join(" · ");
  if (meaning) lines.push(line(meaning));
  if (slice.delay !== null) lines.push(line(`ran ${amount(slice.delay, "ns")} after its launch`));
  return lines;
}

/** The same of a counter: `low` and `high` in a pixel that is `pixel` ns wide, and its parts when they add up to the most, the largest first. */
export function counterText(counters, { counter, low, high, parts }, time, pixel, colors) {
  const { group, label, unit } = counters[counter];
  const value = counted(high, unit);
  const least = counted(low, unit);
  const lines = [element("strong", {}, `${label}: ${least === value ? value : `${least} to ${value}`}`), line(`at ${moment(time, pixel)}`)];
  const whole = parts.reduce((sum, one) => sum + one.value, 0);
  for (const one of parts.filter((part) => part.value > 0).sort((some, other) => other.value - some.value)) {
    const { part } = counters[one.counter];
    const swatch = element("i", {});
    swatch.style.background = colors.get(part);
    lines.push(element("div.tl-part", {}, swatch, `${part}: ${counted(one.value, unit)}, ${percent(one.value, whole)}`));
  }
  return parts.length ? lines : [...lines, line(group)];
}

/** All facts of a slice: words, and texts to each. @returns {[string, string[]][]} */
export function knownOf(about, slice) {
  const length = slice.end - slice.begin;
  /** @type {[string, string[]][]} */
  const found = [
    ["lasted", [lasted(slice, length)]],
    ["from … to", [`${moment(slice.begin, length / 100)} … ${moment(slice.end, length / 100)}`]],
    ["on", [trackPath(about, about.lanes[slice.lane].track)]],
  ];
  if (slice.count > 1) found.push(["merged", [`${slice.count.toLocaleString("en-US")} slices, busy for ${amount(slice.busy, "ns")}`]]);
  if (slice.step >= 0) found.push(["step", [String(slice.step)]]);
  if (slice.delay !== null) found.push(["launched", [`${amount(slice.delay, "ns")} earlier`]]);
  for (const [key, values] of Object.entries(slice.facts)) found.push([WORDS[key] ?? key.replaceAll("_", " "), values.map((value) => fact(key, value))]);
  return found;
}

const WORDS = { full_name: "full name", stack: "launched at", captured: "captured at" };

function fact(key, value) {
  if (typeof value !== "number") return value;
  return key === "bytes" || key.endsWith("_shared") || key.endsWith("_bytes") ? amount(value, "bytes") : value.toLocaleString("en-US");
}

function lasted(slice, length) {
  return slice.cut ? `more than ${amount(length, "ns")}` : amount(length, "ns");
}

function trackPath(about, track) {
  const names = [];
  for (let at = track; at >= 0; at = about.tracks[at].parent) names.unshift(about.tracks[at].name);
  return names.join(" › ");
}

function line(text) {
  return element("div", {}, text);
}
