// Where the picture stands: a canvas, and for screen readers a tree of which it shows one item at a time.

import { element } from "../ui/dom.js";

export class Stage {
  constructor() {
    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.item = element("div.flame-item", { id: "flame-item", role: "treeitem" });
    const given = { tabIndex: 0, role: "tree", "aria-label": "Flame graph", "aria-activedescendant": "flame-item" };
    this.body = element("div.flame-stage", given, this.canvas, this.item);
  }

  /** A frame's text for a screen reader. */
  describe(view, node) {
    const { model } = view;
    const { item } = this;
    const width = model.width[node];
    const name = model.name(node).slice(0, 200);
    item.setAttribute("aria-level", String(Math.abs(model.depth[node]) + 1));
    item.setAttribute("aria-label", `${name}, ${view.amount(width)}, ${view.share(width)}, depth ${model.depth[node]}`);
    if (model.widestChild(node) >= 0) item.setAttribute("aria-expanded", "true");
    else item.removeAttribute("aria-expanded");
  }

  get told() {
    return this.item.getAttribute("aria-label");
  }
}

/** The part of the graph that an address asks for, `0.25-0.5`, in units of the metric; null where it asks for none. */
export function windowOf(at, whole) {
  const [, from, to] = /^([\d.]+(?:e-\d+)?)-([\d.]+(?:e-\d+)?)$/.exec(at) ?? [];
  if (from === undefined || Number(to) <= Number(from)) return null;
  return { left: Number(from) * whole, width: (Number(to) - Number(from)) * whole };
}

export function writeWindow({ left, width }, whole) {
  const part = (value) => String(Number((value / whole).toPrecision(7)));
  return `${part(left)}-${part(left + width)}`;
}
