// How bars are drawn on a canvas.

const FADE = { plain: 1, above: 0.5, dim: 0.2 };

/** Collects bars by colour, so that each colour is set once; labels come last. */
export class Layer {
  #byColor = new Map();
  #labels = [];

  add(color, fade, x, y, wide, tall) {
    const key = color * 4 + fade;
    let list = this.#byColor.get(key);
    if (!list) {
      list = [];
      this.#byColor.set(key, list);
    }
    list.push(x, y, wide, tall);
  }

  label(text, x, y, fade) {
    this.#labels.push([text, x, y, fade]);
  }

  paint(context, colors) {
    const fades = [FADE.plain, FADE.above, FADE.dim, 0.75];
    for (const [key, list] of this.#byColor) {
      context.globalAlpha = fades[key & 3];
      context.fillStyle = colors.css(key >> 2);
      for (let at = 0; at < list.length; at += 4) context.fillRect(list[at], list[at + 1], list[at + 2], list[at + 3]);
    }
    for (const [text, x, y, fade] of this.#labels) {
      context.globalAlpha = fade === 0 ? 1 : 0.75;
      context.fillStyle = fade === 0 ? colors.label : colors.ink;
      context.fillText(text, x, y);
    }
    context.globalAlpha = 1;
  }
}
