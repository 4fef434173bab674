// Colours of frames in the theme that is shown, each a number: drawing sorts by it.

import { KIND } from "../../shared/kinds.js";

const SHADES = 6;
const MATCH = 900;
const CHANGES = 1000; // …+12: from gone to new

export class Colors {
  #shades = null;
  #frames = null;
  label = "";
  match = "";

  constructor(palette, theme) {
    this.palette = palette[theme];
    this.steps = this.palette.steps.map(Number);
    [this.label] = this.palette.label;
    [this.match] = this.palette.match;
    const style = getComputedStyle(document.documentElement);
    for (const name of ["paper", "ink", "soft", "line", "accent"]) this[name] = style.getPropertyValue(`--${name}`).trim();
  }

  /** Shades are reckoned when a frame is first drawn: most of a large profile's never are. */
  of(model, node) {
    if (model.differential) return CHANGES + this.steps.length + model.change(node, this.steps);
    const frame = model.frame[node];
    if (this.#frames !== model.frames) {
      this.#frames = model.frames;
      this.#shades = new Int8Array(model.frames.name.length).fill(-1);
    }
    if (this.#shades[frame] < 0) this.#shades[frame] = shadeOf(model.frames.name[frame]);
    return model.frames.kind[frame] * SHADES + this.#shades[frame];
  }

  get found() {
    return MATCH;
  }

  css(color) {
    if (color === MATCH) return this.match;
    if (color >= CHANGES) return this.palette.changes[color - CHANGES];
    return (this.palette[Math.floor(color / SHADES)] ?? this.palette[KIND.UNATTRIBUTED])[color % SHADES];
  }

  /** For a legend. */
  ofKind(kind) {
    return (this.palette[kind] ?? this.palette[KIND.UNATTRIBUTED])[2];
  }

  ofChange(step) {
    return this.palette.changes[this.steps.length + step];
  }
}

let table = null;
const encoder = new TextEncoder();

/** As render/colors.shade_of: CRC-32 of the name, modulo the number of shades. */
export function shadeOf(name) {
  table ??= Uint32Array.from({ length: 256 }, (_, byte) => {
    let value = byte;
    for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
    return value;
  });
  let sum = 0xffffffff;
  for (const byte of encoder.encode(name)) sum = table[(sum ^ byte) & 255] ^ (sum >>> 8);
  return ((sum ^ 0xffffffff) >>> 0) % SHADES;
}
