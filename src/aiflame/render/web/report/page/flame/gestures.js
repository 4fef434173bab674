// Mouse, wheel and fingers on the picture.

import { ROW } from "./canvas.js";

const CLICK_PX = 4; // a press that moves less is a click
const LONG_PRESS_MS = 500;

export class Gestures {
  #pointers = new Map();
  #pressed = null;
  #long = 0;

  constructor(view) {
    this.view = view;
    const { stage } = view;
    stage.addEventListener("pointerdown", (event) => this.#press(event));
    stage.addEventListener("pointermove", (event) => this.#move(event));
    stage.addEventListener("pointerup", (event) => this.#release(event));
    stage.addEventListener("pointercancel", (event) => this.#release(event, true));
    stage.addEventListener("pointerleave", () => !this.#pressed && view.hover(-1));
    stage.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    stage.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      this.#openMenu(event);
    });
  }

  #at(event) {
    const box = this.view.stage.getBoundingClientRect();
    return [event.clientX - box.x, event.clientY - box.y];
  }

  #node(event) {
    return this.view.chart.nodeAt(...this.#at(event));
  }

  #openMenu(event) {
    const node = this.#node(event);
    if (node >= 0) this.view.menu.open(node, event.clientX, event.clientY);
  }

  #press(event) {
    if (!this.view.model || event.button > 0) return;
    this.view.menu.close();
    this.view.stage.setPointerCapture?.(event.pointerId);
    this.#pointers.set(event.pointerId, this.#at(event));
    const [x, y] = this.#at(event);
    this.#pressed = { x, y, window: { ...this.view.chart.window }, scroll: this.view.chart.scroll, moved: false, spread: this.#spread() };
    clearTimeout(this.#long);
    if (event.pointerType === "touch") {
      this.#long = setTimeout(() => {
        this.#pressed = null;
        this.#openMenu(event);
      }, LONG_PRESS_MS);
    }
  }

  #move(event) {
    const { view } = this;
    if (!view.model) return;
    if (!this.#pressed) {
      if (event.pointerType !== "touch") view.hover(this.#node(event), event.clientX, event.clientY);
      return;
    }
    this.#pointers.set(event.pointerId, this.#at(event));
    if (this.#pointers.size === 2) this.#pinch();
    else this.#drag(...this.#at(event));
  }

  #drag(x, y) {
    const { chart } = this.view;
    const from = this.#pressed;
    if (!from.moved && Math.hypot(x - from.x, y - from.y) < CLICK_PX) return;
    clearTimeout(this.#long);
    if (!from.moved) this.view.hover(-1);
    from.moved = true;
    this.view.stage.classList.add("dragged");
    chart.scrollTo(from.scroll - (y - from.y));
    if (chart.zoomed) {
      chart.setWindow(from.window.left - ((x - from.x) * from.window.width) / chart.pixels, from.window.width);
      if (Math.abs(x - from.x) >= CLICK_PX) from.panned = true;
    }
  }

  #pinch() {
    clearTimeout(this.#long);
    const { chart } = this.view;
    const from = this.#pressed;
    from.moved = true;
    const { middle, wide } = this.#spread();
    if (!from.spread?.wide) {
      from.spread = { middle, wide };
      from.window = { ...chart.window };
      return;
    }
    const factor = Math.max(from.spread.wide, 1) / Math.max(wide, 1);
    const held = from.window.left + (from.spread.middle / chart.pixels) * from.window.width;
    const width = from.window.width * factor;
    chart.setWindow(held - (middle / chart.pixels) * width, width);
    from.panned = true;
  }

  #spread() {
    const xs = [...this.#pointers.values()].map(([x]) => x);
    return xs.length === 2 ? { middle: (xs[0] + xs[1]) / 2, wide: Math.abs(xs[0] - xs[1]) } : null;
  }

  #release(event, cancelled = false) {
    clearTimeout(this.#long);
    this.#pointers.delete(event.pointerId);
    const from = this.#pressed;
    if (this.#pointers.size > 0) return;
    this.#pressed = null;
    this.view.stage.classList.remove("dragged");
    if (!from || cancelled) return;
    if (from.moved) {
      if (from.panned) this.view.moved();
      return;
    }
    const node = this.#node(event);
    if (node < 0) return;
    this.view.setCurrent(node, false);
    this.view.zoomTo(node);
  }

  /** Up and down scrolls; with Ctrl or Meta it zooms about the pointer; sideways pans. */
  #wheel(event) {
    const { view } = this;
    const { chart } = view;
    if (!view.model) return;
    event.preventDefault();
    const unit = event.deltaMode === 1 ? ROW : event.deltaMode === 2 ? chart.height : 1;
    const [x] = this.#at(event);
    if (event.ctrlKey || event.metaKey) {
      const factor = Math.exp(Math.min(Math.max(event.deltaY * unit, -300), 300) / 300);
      const held = chart.window.left + (x / chart.pixels) * chart.window.width;
      const width = Math.min(chart.window.width * factor, chart.whole);
      chart.setWindow(held - (x / chart.pixels) * width, width);
      view.moved();
      return;
    }
    const [across, along] = event.shiftKey && !event.deltaX ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
    if (along) chart.scrollTo(chart.scroll + along * unit);
    if (across && chart.zoomed) {
      chart.setWindow(chart.window.left + (across * unit * chart.window.width) / chart.pixels, chart.window.width);
      view.moved();
    }
    view.hover(this.#node(event), event.clientX, event.clientY);
  }
}
