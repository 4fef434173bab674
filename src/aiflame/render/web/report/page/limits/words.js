// Words and colours for the share of a limit.

import { amount, percent, threeDigits } from "../../../text.js";

const BOUND = {
  memory: "the device's memory",
  tensor: "tensor cores",
  launch: "its launches: the device waits for them for longer than it runs",
  latency: "latency: it does not fill the device",
  "": "nothing that was counted",
};

export function boundBy(row) {
  return BOUND[row.bound_by] ?? row.bound_by;
}

/** `71%`, of an estimate with its error: `71% ± 4`. */
export function reached({ limit, error }) {
  const off = error >= 0.01 ? ` ± ${Math.round(100 * error)}` : "";
  return `${Math.round(100 * limit)}%${off}`;
}

export function bytesPerSecond(value) {
  return `${rounded(value, [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"]])}`;
}

export function operations(value) {
  return `${rounded(value, [[1e15, "PFLOP/s"], [1e12, "TFLOP/s"], [1e9, "GFLOP/s"], [1e6, "MFLOP/s"]])}`;
}

function rounded(value, units) {
  const [size, name] = units.find(([least]) => value >= least * 0.9995) ?? units.at(-1);
  return `${Number((value / size).toPrecision(4)).toLocaleString("en-US")} ${name}`;
}

/** [label, value] of a row, for a box beside its point. */
export function factsOf(row, device, whole) {
  const launches = `${row.launches.toLocaleString("en-US")}, ${amount(Math.round(row.took / Math.max(row.launches, 1)), "ns")} on average`;
  return [
    ["time", `${amount(row.took, "ns")}, ${percent(row.took, whole)}`],
    ["launches", launches],
    ["memory", `${bytesPerSecond(row.memory * device.memory)}, ${percent(row.memory, 1)} of its peak`],
    ...(row.flop_rate ? [["operations", `${operations(row.flop_rate)}, ${percent(row.tensor, 1)} of the peak of their type`], ["operations for each byte", threeDigits(row.intensity)]] : [["tensor cores", `${percent(row.tensor, 1)} of their full rate`]]),
    ["of its limit", reached(row)],
    ["bound by", boundBy(row)],
    ["could win", amount(row.could_win, "ns")],
  ];
}
