// What a frame is, beside the pointer.

import { amount, clip, percent } from "../../../text.js";
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
    const where = [model.place(node), model.module(node)].filter(Boolean).join(" · ");
    const rows = [];
    const row = (label, ...values) => rows.push(element("dt", {}, label), element("dd", {}, ...values));
    for (const [label, value] of this.#facts(node)) row(label, value);
    this.body.replaceChildren(
      element("strong", {}, clip(name, 300)),
      element("div.flame-soft", {}, swatch, model.kindLabel(node)),
      ...(full === name ? [] : [element("div.flame-full", {}, clip(full, 700))]),
      ...(where ? [element("div.flame-full", {}, clip(where, 300))] : []),
      element("dl", {}, ...rows),
    );
  }

  #facts(node) {
    const { view } = this;
    const { model, chart } = view;
    const total = model.width[node];
    const own = model.own[model.byBase ? 2 : 0][node];
    const inside = chart.zoom > 0 && node > chart.zoom && node < model.after[chart.zoom];
    const ofZoomed = inside ? ` · ${percent(total, model.width[chart.zoom])} of the zoomed` : "";
    const facts = [["total", `${view.amount(total)} · ${view.share(total)}${ofZoomed}`]];
    facts.push(["self", `${view.amount(own)} · ${view.share(own)}`]);
    if (model.differential) {
      const [before, now] = [model.base[node], model.total[0][node]];
      facts.push([model.sides.join(" → "), `${view.amount(before)} → ${view.amount(now)} · ${change(before, now)}`]);
    }
    const launches = model.launches[node];
    if (launches > 0) {
      const mean = model.metric.unit === "ns" ? ` · ${amount(Math.round(model.total[0][node] / launches), "ns")} each` : "";
      facts.push(["launches", `${launches.toLocaleString("en-US")}${mean}`]);
    }
    return facts;
  }
}

export function change(before, now) {
  if (before === 0) return now === 0 ? "no change" : "new";
  if (now === 0) return "gone";
  const part = (100 * (now - before)) / before;
  return `${part > 0 ? "+" : part < 0 ? "−" : "±"}${Math.abs(part).toFixed(1)}%`;
}
