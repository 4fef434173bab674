// Amounts and labels as a person reads them; analyze/amounts.py has the same rules.

const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const ENERGIES = [[1e12, "MJ"], [1e9, "kJ"], [1e6, "J"], [1e3, "mJ"], [1, "µJ"]];
const BYTES = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "bytes"]];

const RATES = [[1e15, "PFLOP/s"], [1e12, "TFLOP/s"], [1e9, "GFLOP/s"], [1e6, "MFLOP/s"]];

export function amount(value, unit) {
  const steps = { ns: TIMES, bytes: BYTES, "µJ": ENERGIES, "FLOP/s": RATES }[unit];
  if (!steps) return `${value.toLocaleString("en-US")} ${unit}`;
  const [size, name] = steps.find(([step]) => Math.abs(value) >= step) ?? steps.at(-1);
  return `${threeDigits(value / size)} ${name}`;
}

/** A value of a counter. */
export function counted(value, unit) {
  if (unit === "bytes") return amount(value, unit);
  if (unit === "bytes/s") return `${amount(value, "bytes")}/s`;
  const small = Math.abs(value) < 1; // a learning rate
  const number = small ? value.toLocaleString("en-US", { maximumSignificantDigits: 3 }) : threeDigits(value);
  return `${number}${unit === "%" || unit === "" ? unit : ` ${unit}`}`;
}

export function threeDigits(value) {
  const whole = String(Math.trunc(Math.abs(value))).length;
  return value.toLocaleString("en-US", { maximumFractionDigits: Math.max(0, 3 - whole) });
}

export function percent(part, whole) {
  const value = whole > 0 ? (100 * part) / whole : 0;
  if (value > 0 && value < 0.01) return "<0.01%";
  return `${value.toFixed(value < 1 ? 2 : 1)}%`;
}

/** A metric's label without its second part, which says how the metric was made. */
export function shortLabel({ label }) {
  return label.split(",")[0];
}

export function clip(text, limit) {
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}

// Cuts text to a width in px with the label's own font. Widths of characters are measured once each.
export class Ruler {
  constructor(font) {
    const canvas = /** @type {HTMLCanvasElement} */ (document.createElementNS("http://www.w3.org/1999/xhtml", "canvas"));
    this.context = canvas.getContext("2d");
    this.context.font = font;
    this.widths = new Map();
    this.ellipsis = this.character("…");
  }

  character(text) {
    let width = this.widths.get(text);
    if (width === undefined) {
      width = this.context.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }

  fit(text, room) {
    let used = 0;
    let end = 0; // of the text that fits with an ellipsis after it
    let at = 0;
    for (const character of text) {
      used += this.character(character);
      if (used > room) return end >= 3 ? `${text.slice(0, end).trimEnd()}…` : "";
      at += character.length;
      if (used + this.ellipsis <= room) end = at;
    }
    return text;
  }
}
