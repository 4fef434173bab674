// How near the kernels below a frame come to the limit of their device: its colour, and its words.

import { amount, percent } from "../text.js";

/** @typedef {import("./model.js").Model} Model */

/** Shares of the limit, from far to near. */
export const CLASSES = ["below 20%", "20 to 40%", "40 to 60%", "60 to 80%", "80% or more"];
/** The classes, and frames that have no kernel with a known limit. */
export const GROUPS = [...CLASSES, "no limit known"];
const NEARLY_ALL = 0.95;

/** The class of a share of the limit: a place in CLASSES. */
export function classOf(/** @type {number} */ share) {
  return Math.min(CLASSES.length - 1, Math.floor(share * CLASSES.length));
}

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
