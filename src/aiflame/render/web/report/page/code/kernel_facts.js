// Facts of a kernel beside its code: names, launches, its use of the device, its sampling, the ops that it was compiled from.

import { amount, percent } from "../../../text.js";
import { element } from "../ui/dom.js";

const MOST_PARTS = 12;

export function factsOf(kernel) {
  const names = [kernel.full, kernel.name].filter((name, place, all) => name && name !== kernel.short && all.indexOf(name) === place);
  const title = element("h2.kernel-title", { title: names.join("\n").slice(0, 4000) }, kernel.short || kernel.name);
  const facts = element("dl.facts", {}, ...listed(kernel).map((one) => fact(...one)));
  const notes = kernel.notes.map((note) => element("p.degraded", {}, note));
  const full = names.length ? element("p.full-name", { title: names[0].slice(0, 4000) }, names[0].slice(0, 2000)) : null;
  return [title, full, facts, parts(kernel), ...notes].filter(Boolean);
}

function fact(label, value, more = "") {
  return element("div", { title: more.slice(0, 4000) }, element("dt", {}, label), element("dd", {}, value));
}

function counted(number) {
  return number.toLocaleString("en-US");
}

function listed(kernel) {
  const found = [];
  const { launches, gpu_time_ns: time, samples, shapes } = kernel;
  if (launches) {
    found.push(["launches", launches.toLocaleString("en-US")]);
    found.push(["GPU time", `${amount(time, "ns")} (${percent(time, kernel.total_gpu_time_ns)})`]);
    if (launches > 1) found.push(["each", amount(Math.round(time / launches), "ns")]);
  } else {
    found.push(["launches", "none recorded", "a function that kernels call, or its records are missing"]);
  }
  if (samples) found.push(["samples", `${samples.toLocaleString("en-US")} (${percent(samples, kernel.total_samples)})`, sampling(kernel)]);
  if (shapes.length) found.push(...shapeFacts(kernel));
  if (kernel.specializations.length) {
    found.push(["specializations", counted(kernel.specializations.length), kernel.specializations.join("\n")]);
  }
  if (kernel.versions.length > 1) {
    const versions = kernel.versions.map(([cubin, count]) => `${cubin}: ${counted(count)} samples`);
    found.push(["cubins", `${kernel.versions.length} have it`, [`shown: ${kernel.cubin}`, ...versions].join("\n")]);
  }
  return found;
}

function shapeFacts({ shapes, shape_count: count }) {
  const [most] = shapes;
  const described = ({ launches, grid, block, registers, device }) =>
    `${counted(launches)} × grid ${by(grid)}, block ${by(block)}, ${registers} registers on ${device}`;
  const all = shapes.map(described).join("\n");
  const found = [["grid", by(most.grid) + (count > 1 ? ` and ${count - 1} more` : ""), all], ["block", by(most.block), all]];
  if (most.registers) found.push(["registers", String(most.registers), "of a thread"]);
  if (most.shared) found.push(["shared memory", amount(most.shared, "bytes"), "of a block"]);
  if (most.local) found.push(["local memory", amount(most.local, "bytes"), "of a thread: its stack, and registers that were spilled"]);
  return found;
}

function by(sizes) {
  const used = sizes.map((size) => size.toLocaleString("en-US"));
  while (used.length > 1 && used.at(-1) === "1") used.pop();
  return used.join(" × ");
}

function sampling({ periods, dropped, sampled, shown_samples: shown, not_issued: idle }) {
  const told = [];
  if (periods.length) told.push(`one each ${periods.map((period) => period.toLocaleString("en-US")).join(" or ")} cycles`);
  if (shown) told.push(`in ${percent(idle, shown)} the scheduler issued nothing`);
  if (dropped) told.push(`${percent(dropped, sampled + dropped)} of the device's were dropped`);
  return told.join("; ");
}

/** Of a compiled kernel, the ops that it was fused from. */
function parts({ made_from: made }) {
  if (!made.length) return null;
  const chips = made.slice(0, MOST_PARTS).map((part) => element("li", {}, part));
  const rest = made.length - chips.length;
  const more = rest > 0 ? element("li.soft", {}, `and ${rest} more`) : null;
  return element("ul.made-from", { title: made.join("\n").slice(0, 4000) }, element("li.soft", {}, "fused from"), ...chips, more);
}
