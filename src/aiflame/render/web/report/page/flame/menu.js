// The actions for a frame, and the menu at the pointer that lists them.

import { collapsed } from "../../../flame/collapsed_stack.js";
import { KIND } from "../../../kinds.js";
import { exactly, writeChoices } from "../../shared/frame_choices.js";
import { element } from "../ui/dom.js";
import { addChoice } from "./legend.js";

/** A kernel, and the kinds of frames inside one. */
const IN_KERNEL = new Set([KIND.GPU_KERNEL, KIND.GPU_SCOPE, KIND.GPU_LINE, KIND.GPU_INSTRUCTION, KIND.GPU_STALL, KIND.GPU_OFFSET]);

/** Frames that have a line in the view source. */
const CODE = new Set([KIND.PYTHON, KIND.C, KIND.CPP, KIND.CPU_LINE]);

/** [action, label, key]; null: a line between. */
const ITEMS = [
  ["zoom", "Zoom to this frame", "Enter"],
  ["focus", "Only stacks through this name", "f"],
  ["hide", "Hide frames of this name", "x"],
  ["hideKind", "Hide frames of this kind", ""],
  ["merge", "Merge all of this name", ""],
  ["sandwich", "Callers and callees (sandwich)", "s"],
  null,
  ["source", "Source and SASS", ""],
  ["find", "Search this name", ""],
  ["copyName", "Copy name", "C"],
  ["copyStack", "Copy stack", "c"],
];

export class ActionMenu {
  #node = -1;
  #buttons = new Map();

  constructor(view) {
    this.view = view;
    const rows = ITEMS.map((item) => {
      if (!item) return element("hr", {});
      const [action, label, key] = item;
      const given = { type: "button", role: "menuitem", tabIndex: -1, dataset: { action }, onclick: () => this.#choose(action) };
      const row = element("button", given, label, key ? element("kbd", {}, key) : null);
      this.#buttons.set(action, row);
      return row;
    });
    this.title = element("strong", {});
    this.body = element("div.flame-actions", { role: "menu", "aria-label": "Frame", hidden: true }, this.title, ...rows);
    this.body.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("pointerdown", (event) => !this.body.contains(/** @type {Node} */ (event.target)) && this.close());
  }

  get shown() {
    return !this.body.hidden;
  }

  open(node, x, y) {
    const { view } = this;
    this.#node = node;
    view.tooltip.hide();
    view.setCurrent(node, false);
    this.title.textContent = view.model.name(node).slice(0, 120);
    const real = node > 0 || Boolean(view.state.sandwich);
    for (const action of ["focus", "hide", "hideKind", "merge", "sandwich"]) this.#buttons.get(action).disabled = !real;
    const source = sourceOf(view, node);
    this.#buttons.get("source").hidden = !source;
    if (source) this.#buttons.get("source").textContent = source[0] === "code" ? "Source and SASS" : "Source";
    this.body.hidden = false;
    const box = view.body.getBoundingClientRect();
    const left = Math.min(x - box.x, box.width - this.body.offsetWidth - 6);
    const top = Math.min(y - box.y, box.height - this.body.offsetHeight - 6);
    this.body.style.left = `${Math.max(4, left)}px`;
    this.body.style.top = `${Math.max(4, top)}px`;
    this.#buttons.get("zoom").focus({ preventScroll: true });
  }

  close() {
    if (!this.shown) return;
    const had = this.body.contains(document.activeElement);
    this.body.hidden = true;
    if (had) this.view.stage.focus({ preventScroll: true });
  }

  act(action, node) {
    const { view } = this;
    const { model } = view;
    const name = { what: "name", text: model.name(node) };
    const real = node > 0 || view.state.sandwich;
    if (action === "zoom") view.zoomTo(node);
    else if (action === "copyName") view.copy(model.full(node), "the name");
    else if (action === "copyStack") view.copy(collapsed(model, node), "the stack");
    else if (action === "find") view.change({ search: exactly(name.text) });
    else if (action === "source") openSource(view, node);
    else if (real && action === "hideKind") addChoice(view, "hide", { what: "kind", text: model.kindLabel(node) });
    else if (real && action === "sandwich") view.change({ sandwich: writeChoices([name]), merge: "" });
    else if (real) addChoice(view, action, name);
  }

  #choose(action) {
    const node = this.#node;
    this.close();
    this.act(action, node);
  }

  #key(event) {
    const rows = [...this.#buttons.values()].filter((one) => !one.disabled && !one.hidden);
    const at = rows.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") this.close();
    else if (step) rows[(at + step + rows.length) % rows.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** The kernel that a frame is or lies in, or "". */
export function kernelOf(model, node) {
  let kernel = "";
  for (let at = node; at >= 0 && IN_KERNEL.has(model.kind(at)); at = model.parent[at]) {
    if (model.kind(at) === KIND.GPU_KERNEL) kernel = model.name(at);
  }
  return kernel;
}

/** Where a frame's source is shown: [view, state], or null. */
export function sourceOf({ model, app }, node) {
  const kernel = kernelOf(model, node);
  if (kernel) return ["code", { kernel }];
  const place = model.place(node);
  const clock = [model.metric.name, "cpu-time", "wall-time"].find((name) => app.blocks.includes(`source.${name}`));
  return clock && place && CODE.has(model.kind(node)) ? ["source", { metric: clock, place }] : null;
}

export function openSource(view, node) {
  const source = sourceOf(view, node);
  if (source) view.app.go(...source);
}
