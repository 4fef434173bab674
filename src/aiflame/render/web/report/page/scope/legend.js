// Which colour is how much.

import { element } from "../ui/dom.js";
import { scale } from "./colors.js";
import { named } from "./words.js";

const WIDTH = 160;
const HEIGHT = 10;

export class Legend {
  constructor() {
    this.canvas = element("canvas", { width: WIDTH, height: HEIGHT });
    this.numbers = element("span.sc-numbers");
    this.body = element("span.sc-legend", {}, this.canvas, this.numbers);
    this.body.setAttribute("role", "img");
  }

  /** @param {(value: number) => string} text */
  show(most, text, logarithmic, theme) {
    const context = this.canvas.getContext("2d");
    scale(theme).forEach(([red, green, blue], step) => {
      context.fillStyle = `rgb(${red} ${green} ${blue})`;
      context.fillRect((step * WIDTH) / 256, 0, WIDTH / 256 + 1, HEIGHT);
    });
    const shown = [0, 0.5, 1].map((share) => named.value(share, most, logarithmic));
    const texts = shown.map(text);
    texts[0] = logarithmic ? "> 0" : "0";
    this.numbers.replaceChildren(...texts.map((text) => element("span", {}, text)));
    this.body.setAttribute("aria-label", `Colours from 0 to ${texts[2]} a cell`);
  }
}
