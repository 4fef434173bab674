// Stall reasons in colours: a reason has the same colour everywhere. Memory is warm, arithmetic cool.

import { percent } from "../../../text.js";
import { element, wide } from "../ui/dom.js";

const CLASSES = {
  selected: "issued",
  not_selected: "ready",
  long_scoreboard: "memory",
  lg_throttle: "memory-queue",
  tex_throttle: "memory-queue",
  drain: "memory-queue",
  membar: "memory-queue",
  imc_miss: "constant",
  short_scoreboard: "shared",
  mio_throttle: "shared-queue",
  barrier: "barrier",
  warpgroup_arrive: "barrier",
  wait: "latency",
  branch_resolving: "branch",
  no_instructions: "branch",
  dispatch_stall: "dispatch",
  math_pipe_throttle: "math",
  gmma: "tensor",
  sleeping: "asleep",
};

/** A bar of a row: its parts are the reasons, its length the row's share of the hottest. */
export function stallBar(row, names, most) {
  const bar = element("span.stalls", { "aria-hidden": "true" });
  if (!row.samples) return bar;
  const parts = row.reasons.filter(([, samples]) => samples > 0);
  for (const [reason, samples] of parts) bar.append(wide(element(`i.stall-${stallClass(names[reason]?.[0])}`), samples / most));
  return bar;
}

export function stallClass(name) {
  return CLASSES[name] ?? "other";
}

/** A row's stall reasons in words: its tooltip. */
export function stallWords(row, names, whole) {
  if (!row.samples) return "";
  const of = ([reason, samples]) => `${percent(samples, row.samples)} ${names[reason][0]}: ${names[reason][1] || "no explanation known"}`;
  const share = `${row.samples.toLocaleString("en-US")} samples, ${percent(row.samples, whole)} of the kernel's`;
  const head = `${share}; in ${percent(row.notIssued, row.samples)} nothing was issued`;
  return [head, ...row.reasons.filter(([, samples]) => samples > 0).map(of)].join("\n");
}

/** The kernel's stall reasons, the most frequent first, with their colours and explanations; without the rarest. */
export function legend(kernel) {
  const least = kernel.shown_samples / 200;
  const totals = new Map();
  for (const [reason, samples] of kernel.instructions.flatMap((one) => one.reasons)) {
    totals.set(reason, (totals.get(reason) ?? 0) + samples);
  }
  const chips = [...totals]
    .filter(([, samples]) => samples > least)
    .sort((one, other) => other[1] - one[1])
    .map(([reason, samples]) => {
      const [name, meaning] = kernel.reasons[reason];
      const share = element("span.soft", {}, ` ${percent(samples, kernel.shown_samples)}`);
      return element("li", { title: meaning }, element(`i.swatch.stall-${stallClass(name)}`), name, share);
    });
  return element("ul.legend.stall-legend", { "aria-label": "What warps waited for" }, ...chips);
}
