// A frame in words: at the pointer, and in the line under the picture.

import { amount, percent } from "../text.js";
import { limitText } from "./limits.js";

/** @typedef {import("./viewport.js").Viewport} Viewport */
/** @typedef {import("./model.js").Model} Model */

/**
 * Facts of a frame, each with its label.
 * @param {Viewport} chart
 * @param {number} node
 * @returns {[string, string][]}
 */
export function factsOf({ model, zoom }, node) {
  const total = model.width[node];
  const facts = [["total", `${amountOf(model, total)}${ofZoomed(model, zoom, node)}`], ["self", amountOf(model, model.ownWidth[node])]];
  if (model.differential) facts.push([model.sides.join(" → "), compared(model, node)]);
  const limit = limitText(model, node);
  if (limit) facts.push(["limit", limit]);
  const launches = model.launches[node];
  if (launches > 0) {
    const mean = model.metric.unit === "ns" ? ` · ${amount(Math.round(model.total[0][node] / launches), "ns")} each` : "";
    facts.push(["launches", `${launches.toLocaleString("en-US")}${mean}`]);
  }
  return /** @type {[string, string][]} */ (facts);
}

/**
 * The same in one line.
 * @param {Viewport} chart
 * @param {number} node
 */
export function lineOf({ model, zoom }, node) {
  const parts = [`${amountOf(model, model.width[node])} of all${ofZoomed(model, zoom, node)}`, `self ${amountOf(model, model.ownWidth[node])}`];
  if (model.differential) parts.push(compared(model, node));
  const limit = limitText(model, node);
  if (limit) parts.push(limit);
  return parts.join(" · ");
}

/**
 * The place of its code.
 * @param {Model} model
 * @param {number} node
 */
export function whereOf(model, node) {
  return [model.place(node), model.module(node)].filter(Boolean).join(" · ");
}

/**
 * `Matched 12.3% · 4 frames`: shares of the zoomed frame, nothing counted twice; callees and callers of a sandwich's middle apart.
 * @param {Viewport} chart
 */
export function matched({ model, found, zoom }) {
  if (!found) return "";
  const parts = found.covered(zoom);
  const names = parts.length > 1 ? ["callees: ", "callers: "] : [""];
  const frames = (/** @type {number} */ count) => `${count.toLocaleString("en-US")} ${count === 1 ? "frame" : "frames"}`;
  const share = (/** @type {number} */ sum) => percent(sum, model.width[zoom]);
  return parts.map(({ sum, count }, at) => `${names[at]}Matched ${share(sum)} · ${frames(count)}`).join("; ");
}

/**
 * @param {Model} model
 * @param {number} value
 */
function amountOf(model, value) {
  return `${amount(value, model.metric.unit)} · ${percent(value, model.all)}`;
}

/**
 * @param {Model} model
 * @param {number} zoom
 * @param {number} node
 */
function ofZoomed(model, zoom, node) {
  const inside = zoom > 0 && node > zoom && node < model.after[zoom];
  return inside ? ` · ${percent(model.width[node], model.width[zoom])} of the zoomed` : "";
}

/**
 * @param {Model} model
 * @param {number} node
 */
function compared(model, node) {
  const [before, now] = [model.base[node], model.total[0][node]];
  const { unit } = model.metric;
  return `${amount(before, unit)} → ${amount(now, unit)} · ${change(before, now)}`;
}

/**
 * @param {number} before
 * @param {number} now
 */
function change(before, now) {
  if (before === 0) return now === 0 ? "no change" : "new";
  if (now === 0) return "gone";
  const part = (100 * (now - before)) / before;
  return `${part > 0 ? "+" : part < 0 ? "−" : "±"}${Math.abs(part).toFixed(1)}%`;
}
