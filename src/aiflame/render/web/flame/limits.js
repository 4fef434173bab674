// How near the kernels below a frame come to the limit of their device: its colour, and its words.

import { CLASSES, classOf } from "../limit_classes.js";
import { amount, percent } from "../text.js";

/** @typedef {import("./model.js").Model} Model */

/** The classes, and frames that have no kernel with a known limit. */
export const GROUPS = [...CLASSES, "no limit known"];
const NEARLY_ALL = 0.95;

/**
 * The group of a frame: a place in GROUPS.
 * @param {Model} model
 * @param {number} node
 */
export function limitGroup({ limits }, node) {
  if (!limits || !(limits.counted[node] > 0)) return CLASSES.length;
  return classOf(limits.limit[node] / limits.counted[node]);
}

/**
 * `41% of the memory's limit; could win 1.2 ms`; "" where no limit is known.
 * @param {Model} model
 * @param {number} node
 */
export function limitText({ limits, total }, node) {
  const counted = limits?.counted[node] ?? 0;
  if (!limits || !(counted > 0)) return "";
  const limit = limits.limit[node];
  const whose = 2 * limits.memory[node] >= limit ? "memory's" : "tensor cores'";
  const some = limits.ofTime && counted < NEARLY_ALL * total[0][node] ? `, known for ${percent(counted, total[0][node])} of the time` : "";
  return `${Math.round((100 * limit) / counted)}% of the ${whose} limit; could win ${amount(Math.round(counted - limit), "ns")}${some}`;
}
