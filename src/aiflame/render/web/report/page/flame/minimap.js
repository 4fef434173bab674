// The whole graph, small, with the shown part as a box that can be dragged: only while less than the whole is shown.

import { bars } from "../../../flame/bars.js";
import { element } from "../ui/dom.js";
import { ROW } from "./canvas.js";
import { Layer } from "./paint.js";

const TALL = 46; // px

export class Minimap {
  #drawn = null; // the tree and colours of the present picture
  #grip = null;

  constructor(view) {
    this.view = view;
    this.canvas = element("canvas", {});
    this.box = element("div.flame-box", {});
    const given = { hidden: true, "aria-hidden": "true", title: "The whole graph: drag the box" };
    this.body = element("div.flame-map", given, this.canvas, this.box);
    this.body.addEventListener("pointerdown", (event) => this.#press(event));
    this.body.addEventListener("pointermove", (event) => this.#grip !== null && this.#drag(event));
    this.body.addEventListener("pointerup", () => this.#release());
    this.body.addEventListener("pointercancel", () => this.#release());
  }

  update() {
    const { chart } = this.view;
    const wanted = chart.model !== null && chart.zoomed;
    if (this.body.hidden === wanted) this.body.hidden = !wanted;
    if (!wanted) return;
    this.#paint();
    const { window, whole, model } = chart;
    const pixels = this.body.clientWidth;
    const from = (window.left / whole) * pixels;
    const wide = Math.max((window.width / whole) * pixels, 4);
    const rows = Math.max(model.levels * ROW, 1);
    const seen = Math.min(1, chart.height / rows);
    const top = chart.content > chart.height ? chart.scroll / rows : 0;
    Object.assign(this.box.style, {
      left: `${Math.min(from, pixels - wide)}px`, width: `${wide}px`, top: `${top * TALL}px`, height: `${Math.max(seen * TALL, 6)}px`,
    });
  }

  #paint() {
    const { chart, found } = this.view;
    const { model, colors, down } = chart;
    const pixels = this.body.clientWidth;
    const key = [model, colors, down, found, pixels, model.byBase];
    if (this.#drawn && key.every((one, at) => one === this.#drawn[at])) return;
    this.#drawn = key;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(pixels * ratio);
    this.canvas.height = Math.round(TALL * ratio);
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, pixels, TALL);
    const tall = TALL / model.levels;
    const layer = new Layer();
    const every = Math.max(1, Math.floor(1 / (tall * ratio))); // rows thinner than a pixel are left out
    for (let row = 0; row < model.levels; row += every) {
      const y = chart.slot(row) * tall;
      bars(model, row, { left: 0, width: chart.whole }, pixels, found, (node, from, to, _, match) => {
        layer.add(match ? colors.found : colors.of(model, node), 0, from, y, Math.max(to - from, 0.5), Math.max(tall * every, 0.5));
      });
    }
    layer.paint(context, colors);
  }

  #press(event) {
    this.body.setPointerCapture(event.pointerId);
    const { chart } = this.view;
    const at = this.#part(event);
    const middle = (chart.window.left + chart.window.width / 2) / chart.whole;
    const inside = Math.abs(at - middle) <= chart.window.width / chart.whole / 2;
    this.#grip = inside ? at - middle : 0;
    this.#drag(event);
  }

  #drag(event) {
    const { chart } = this.view;
    const middle = (this.#part(event) - this.#grip) * chart.whole;
    chart.setWindow(middle - chart.window.width / 2, chart.window.width);
  }

  #release() {
    if (this.#grip === null) return;
    this.#grip = null;
    this.view.moved();
  }

  #part(event) {
    const box = this.body.getBoundingClientRect();
    return (event.clientX - box.x) / box.width;
  }
}
