// Moments and ticks on a scale of time, in ns.

/** @type {[number, string][]} */
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

/** A moment, as finely as a scale whose steps are `step` ns needs it. */
export function moment(ns, step) {
  if (ns === 0) return "0";
  const [size, unit] = UNITS.find(([one]) => Math.abs(ns) >= one) ?? UNITS.at(-1);
  const digits = Math.max(0, Math.ceil(Math.log10(size / Math.max(step, 1)) - 1e-9));
  return `${(ns / size).toFixed(Math.min(digits, 9))} ${unit}`;
}

/** The step of a scale, 1, 2 or 5 times a power of ten, that leaves each tick at least `room` ns. */
export function tickStep(room) {
  const power = 10 ** Math.floor(Math.log10(Math.max(room, 1)));
  const times = [1, 2, 5, 10].find((one) => one * power >= room) ?? 10;
  return times * power;
}

/** `12-340` as [12, 340]; null where it is none. */
export function between(text) {
  const found = /^(-?\d+)-(\d+)$/.exec(text ?? "");
  if (!found) return null;
  const [from, to] = [Number(found[1]), Number(found[2])];
  return from <= to ? [from, to] : [to, from];
}
