// Colours of frames in the theme that is shown, each a number: drawing sorts by it.

import { FrameColors, SHADES } from "../../../flame/colors.js";
import { KIND } from "../../../kinds.js";

const MATCH = 900;
const CHANGES = 1000; // …+12: from gone to new
const LIMITS = 2000; // …+5: from far to near, and unknown

export class Colors {
  #frames;
  label = "";
  match = "";

  constructor(palette, theme) {
    this.palette = palette[theme];
    this.steps = this.palette.steps.map(Number);
    this.#frames = new FrameColors(this.steps);
    [this.label] = this.palette.label;
    [this.match] = this.palette.match;
    const style = getComputedStyle(document.documentElement);
    for (const name of ["paper", "ink", "soft", "line", "accent"]) this[name] = style.getPropertyValue(`--${name}`).trim();
  }

  of(model, node) {
    return this.shown(model, this.#frames.number(model, node));
  }

  /** A colour of flame/colors.js: those of changes and of limits are apart from those of kinds. */
  shown(model, number) {
    if (model.differential) return CHANGES + number;
    return model.limits ? LIMITS + number : number;
  }

  get found() {
    return MATCH;
  }

  css(color) {
    if (color === MATCH) return this.match;
    if (color >= LIMITS) return this.palette.limits[color - LIMITS];
    if (color >= CHANGES) return this.palette.changes[color - CHANGES];
    return (this.palette[Math.floor(color / SHADES)] ?? this.palette[KIND.UNATTRIBUTED])[color % SHADES];
  }
}
