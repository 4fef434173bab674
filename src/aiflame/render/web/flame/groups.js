// Groups of frames in the legend: kinds, or shares of the limit, or in a differential graph directions of change.

import { KIND_ORDER } from "../kinds.js";
import { percent } from "../text.js";
import { changeColor, kindColor } from "./colors.js";
import { GROUPS, limitGroup } from "./limits.js";

/** @typedef {import("./model.js").Model} Model */

/**
 * An entry of the legend. `group` is a kind, or a place in `GROUPS` or `CHANGES`; `color` as in colors.js.
 * @typedef {{group: number, key: string, color: number, share: string, title: string}} Entry
 */

export const CHANGES = ["gone", "less", "same", "more", "new"];
const HIGHLIGHT = "Click: highlight";

/**
 * The names of groups, by group.
 * @param {Model} model
 * @returns {Record<number, string> | string[]}
 */
export function groupNames(model) {
  if (model.differential) return CHANGES;
  return model.limits ? GROUPS : model.labels;
}

/**
 * The group of a node.
 * @param {Model} model
 * @param {number} node
 * @param {number[]} steps
 */
export function groupOf(model, node, steps) {
  if (!model.differential) return model.limits ? limitGroup(model, node) : model.kind(node);
  const [now, before] = [model.total[0][node], model.base[node]];
  if (before === 0) return 4;
  if (now === 0) return 0;
  return 2 + Math.sign(model.change(node, steps));
}

/**
 * Whether a node is in one of the groups.
 * @param {Model} model
 * @param {Set<number>} groups
 * @param {number[]} steps
 */
export function inGroups(model, groups, steps) {
  return (/** @type {number} */ node) => groups.has(groupOf(model, node, steps));
}

/**
 * For each group the values in or below its frames (a frame inside of its like does not count again), in them alone, and their number.
 * @param {Model} model
 * @param {number[]} steps
 */
export function groupShares(model, steps) {
  const inclusive = new Float64Array(32);
  const own = new Float64Array(32);
  const frames = new Int32Array(32);
  const above = new Uint32Array(model.count); // a bit for each group that encloses the node
  const group = new Uint8Array(model.upper);
  for (let node = 0; node < model.upper; node++) {
    const its = groupOf(model, node, steps);
    group[node] = its;
    if (node > 0) {
      const parent = model.parent[node];
      above[node] = above[parent] | (1 << group[parent]);
    }
    if (!(above[node] & (1 << its))) inclusive[its] += model.width[node];
    own[its] += model.differential && its === 0 ? model.own[2][node] : model.ownWidth[node];
    frames[its]++;
  }
  return { inclusive, own, frames };
}

/**
 * The legend. `alone`: shares are those of the frames themselves, which add up to all; else of all in or below them.
 * @param {Model} model
 * @param {number[]} steps
 * @param {ReturnType<typeof groupShares>} shares
 * @param {boolean} alone
 * @returns {Entry[]}
 */
export function entries(model, steps, { inclusive, own, frames }, alone = false) {
  const whole = model.width[0];
  if (model.differential) {
    return CHANGES.map((key, group) => {
      const of = group > 0 ? "widths" : model.against ? "rest" : "baseline";
      const title = `${frames[group].toLocaleString("en-US")} frames. Share of the ${of} that lies in them. ${HIGHLIGHT}`;
      return { group, key, color: changeColor(group, steps), share: percent(own[group], group > 0 ? whole : model.base[0]), title };
    });
  }
  if (model.limits) {
    return GROUPS.map((key, group) => {
      const title = `${frames[group].toLocaleString("en-US")} frames. Share of the widths that lies in them. ${HIGHLIGHT}`;
      return { group, key, color: group, share: percent(own[group], whole), title };
    });
  }
  const kinds = [...inclusive.keys()].filter((kind) => kind > 0 && inclusive[kind] > 0).sort((one, other) => rank(one) - rank(other));
  return kinds.map((group) => {
    const key = model.labels[group] ?? `kind ${group}`;
    const share = alone ? (own[group] > 0 ? percent(own[group], whole) : "") : percent(inclusive[group], whole);
    const title = `${percent(inclusive[group], whole)} in or below ${key} frames, ${percent(own[group], whole)} in themselves. ${HIGHLIGHT}. Shift-click: hide`;
    return { group, key, color: kindColor(group), share, title };
  });
}

function rank(/** @type {number} */ kind) {
  const at = KIND_ORDER.indexOf(/** @type {any} */ (kind));
  return at < 0 ? KIND_ORDER.length : at;
}
