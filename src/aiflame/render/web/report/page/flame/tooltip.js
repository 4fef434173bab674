// The frame under the pointer, described beside it.

import { factsOf, whereOf } from "../../../flame/words.js";
import { clip } from "../../../text.js";
import { element } from "../ui/dom.js";

export class Tooltip {
  #node = -1;

  constructor(view) {
    this.view = view;
    this.body = element("div.flame-tooltip", { role: "tooltip", hidden: true });
  }

  show(node, x, y) {
    if (this.#node !== node || this.body.hidden) this.#fill(node);
    this.#node = node;
    this.body.hidden = false;
    const box = this.view.body.getBoundingClientRect();
    const { offsetWidth: wide, offsetHeight: tall } = this.body;
    const left = x - box.x + 14 + wide > box.width ? x - box.x - 10 - wide : x - box.x + 14;
    const top = y - box.y + 18 + tall > box.height ? y - box.y - 12 - tall : y - box.y + 18;
    this.body.style.left = `${Math.max(4, left)}px`;
    this.body.style.top = `${Math.max(4, top)}px`;
  }

  hide() {
    this.body.hidden = true;
  }

  #fill(node) {
    const { model, chart } = this.view;
    const name = model.name(node);
    const full = model.full(node);
    const swatch = element("i.flame-swatch", {});
    swatch.style.background = chart.colors.css(chart.colors.of(model, node));
    const where = whereOf(model, node);
    const rows = factsOf(chart, node).flatMap(([label, value]) => [element("dt", {}, label), element("dd", {}, value)]);
    this.body.replaceChildren(
      element("strong", {}, clip(name, 300)),
      element("div.flame-soft", {}, swatch, model.kindLabel(node)),
      ...(full === name ? [] : [element("div.flame-full", {}, clip(full, 700))]),
      ...(where ? [element("div.flame-full", {}, clip(where, 300))] : []),
      element("dl", {}, ...rows),
    );
  }
}
