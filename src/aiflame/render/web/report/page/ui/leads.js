// Where a row of a table leads: the view that shows its time.

import { escaped, exactly, writeChoices } from "../../shared/frame_choices.js";
import { ownMetrics } from "./metrics.js";

/** [view, state], or null where nothing shows more than the row. `row`: value of each column, by its name. */
export function leadOf(table, row, { summary, blocks, started_ns: started }) {
  const metric = summary.metric;
  const own = ownMetrics(summary.metrics).map((one) => one.name);
  const clock = summary.metrics.map((one) => one.name).find((name) => name === "cpu-time" || name === "wall-time") ?? own[0];
  switch (table.name) {
    case "kernels":
      return ["code", { kernel: row.name }];
    case "copies":
      return ["flame", { metric: "gpu-time", by: "code", search: exactly(row.short) }];
    case "layers":
      return ["flame", { metric, by: "layer", ...layerFrames(row.layer) }];
    case "layer-groups":
      return ["flame", { metric, by: "layer", ...layerFrames(row.group) }];
    case "ops":
      return ["flame", { metric, by: "op", search: exactly(row.op) }];
    case "phases":
      return ["flame", { metric, by: "phase", search: exactly(row.phase) }];
    case "steps":
      return ["flame", { metric, by: "step", search: `^Step\\.${row.step}$` }];
    case "gaps":
      return ["timeline", { clock: around(started + row.begin_ns, row.length) }];
    case "idle":
      return clock && row.place ? ["flame", { metric: clock, by: "code", search: placeSearch(row.place) }] : ["timeline", {}];
    default:
      return ofCode(table, row, clock, own, blocks);
  }
}

function ofCode({ name }, row, clock, own, blocks) {
  const metric = name.endsWith("-wall-time") ? "wall-time" : own[/-own-(\d+)$/.exec(name)?.[1]] ?? clock;
  if (name.startsWith("lines") && row.place && blocks.includes(`source.${metric}`)) return ["source", { metric, place: row.place }];
  if (name.startsWith("lines") && row.place) return ["flame", { metric, by: "code", detail: "line", search: placeSearch(row.place) }];
  if (name.startsWith("functions") || name.startsWith("lines")) return ["flame", { metric, by: "code", search: exactly(row.name) }];
  return null;
}

/** A stretch of time with a little time before and after it. */
function around(begin, length) {
  return `${Math.max(0, Math.round(begin - length / 2))}-${Math.round(begin + length * 1.5)}`;
}

/** Frames of `layers.7.attn` are called `attn`, inside of `layers.7`: as analyze/layer_groups.py has it. */
export function layerFrames(path) {
  const names = [];
  for (const part of path.split(".")) {
    if (names.length && /^(\*|\d+)$/.test(part)) names.push(`${names.pop()}.${part}`);
    else names.push(part);
  }
  const search = pattern(names.pop());
  const around = names.map((name) => (name.includes("*") ? { what: "match", text: pattern(name) } : { what: "name", text: name }));
  return { search, focus: writeChoices(around) };
}

/** `*` stands for any number. */
function pattern(name) {
  return exactly(name).replaceAll(escaped("*"), "[0-9]+");
}

/** Frames show a file's name without its folders. */
function placeSearch(place) {
  return `${escaped(place.slice(place.lastIndexOf("/") + 1))}$`;
}
