// The colour of a frame as a number: of a kind and a shade, as render/colors.kind_class counts them; or in a differential graph how far it
// changed, from gone (0) to new; or how near it comes to its limit, from far (0) to near and unknown.

import { limitGroup } from "./limits.js";

/** @typedef {import("./model.js").Model} Model */

export const SHADES = 6;
const LEGEND_SHADE = 2;

export class FrameColors {
  /** @type {Int8Array} */
  #shades = new Int8Array(0);
  /** @type {object | null} */
  #frames = null;

  constructor(/** @type {number[]} */ steps) {
    this.steps = steps;
  }

  /**
   * Shades are reckoned when a frame is first drawn: most of a large profile's never are.
   * @param {Model} model
   * @param {number} node
   */
  number(model, node) {
    if (model.differential) return this.steps.length + model.change(node, this.steps);
    if (model.limits) return limitGroup(model, node);
    const { frames } = model;
    const frame = model.frame[node];
    if (this.#frames !== frames) {
      this.#frames = frames;
      this.#shades = new Int8Array(frames.name.length).fill(-1);
    }
    if (this.#shades[frame] < 0) this.#shades[frame] = shadeOf(frames.name[frame]);
    return frames.kind[frame] * SHADES + this.#shades[frame];
  }
}

/** Of a kind in the legend. */
export function kindColor(/** @type {number} */ kind) {
  return kind * SHADES + LEGEND_SHADE;
}

/**
 * Of a change in the legend, a place in `CHANGES`.
 * @param {number} group
 * @param {number[]} steps
 */
export function changeColor(group, { length }) {
  return [0, length - 3, length, length + 3, 2 * length][group];
}

/** @type {Uint32Array | null} */
let table = null;
const encoder = new TextEncoder();

/** As render/colors.shade_of: CRC-32 of the name, modulo the number of shades. */
function shadeOf(/** @type {string} */ name) {
  table ??= Uint32Array.from({ length: 256 }, (_, byte) => {
    let value = byte;
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
    return value;
  });
  let sum = 0xffffffff;
  for (const byte of encoder.encode(name)) sum = table[(sum ^ byte) & 255] ^ (sum >>> 8);
  return ((sum ^ 0xffffffff) >>> 0) % SHADES;
}
