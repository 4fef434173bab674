// Puts the parts together: every action makes a new state, the state is shown and written into the address.

import { fromBase64, readBlock } from "../blocks.js";
import { collapsed } from "../flame/collapsed_stack.js";
import { inGroups } from "../flame/groups.js";
import { find, Found } from "../flame/search.js";
import { lineOf, matched } from "../flame/words.js";
import { clip, percent } from "../text.js";
import { Chart, element, ROW } from "./chart.js";
import { FlameFile } from "./file.js";
import { pressed } from "./keys.js";
import { Details, Header, Help, Tooltip } from "./panels.js";
import { readState, writeState } from "./state.js";

/** @typedef {import("./state.js").State} State */

class App {
  /**
   * @param {SVGSVGElement} svg
   * @param {FlameFile} file
   */
  constructor(svg, file) {
    this.svg = svg;
    this.file = file;
    this.graph = file.graph({});
    this.header = new Header(this, this.graph.model);
    this.details = new Details();
    this.tooltip = new Tooltip();
    this.help = new Help(this);
    const dark = /** @type {HTMLStyleElement} */ (svg.querySelector("#aiflame-dark"));
    this.darkRule = /** @type {CSSMediaRule} */ (/** @type {CSSStyleSheet} */ (dark.sheet).cssRules[0]);
    this.prefersDark = matchMedia("(prefers-color-scheme: dark)");

    svg.querySelector("#aiflame-still")?.remove();
    for (const name of ["viewBox", "role"]) svg.removeAttribute(name);
    svg.classList.add("af-live");
    this.top = element("foreignObject", { x: 0, y: 0, width: 10, height: 10 }, this.header.body);
    this.bottom = element("foreignObject", { x: 0, width: 10, height: 26 }, this.details.body);
    svg.append(this.top);
    this.chart = new Chart(svg, file.head.steps);
    this.chart.model = this.graph.model;
    svg.append(this.bottom, this.tooltip.holder, this.help.holder);

    this.state = readState("", file);
    this.typing = false;
    this.dragged = false;
    this.size = { width: 0, height: 0 };
    this.listen();
    this.show(readState(location.hash, file), true);
    svg.dataset.ready = "true";
  }

  get dark() {
    return this.state.theme ? this.state.theme === "dark" : this.prefersDark.matches;
  }

  get steps() {
    return history.state?.aiflame ?? 0;
  }

  go(/** @type {Partial<State>} */ change, push = true) {
    this.typing = false;
    const next = { ...this.state, ...change };
    const address = writeState(next);
    try {
      if (push && address !== writeState(this.state)) history.pushState({ aiflame: this.steps + 1 }, "", address);
      else history.replaceState(history.state, "", address);
    } catch {
      // A page that holds us may forbid it: then the address stays as it is.
    }
    this.show(next);
  }

  // A word typed is one step back, not one a letter.
  search(/** @type {string} */ text, /** @type {boolean} */ done) {
    const { typing } = this;
    this.go({ search: text }, !typing);
    this.typing = !done;
  }

  undo() {
    if (this.steps > 0) history.back();
  }

  reset() {
    this.go({ zoom: 0 });
  }

  matchCase() {
    this.go({ matchCase: !this.state.matchCase });
  }

  order() {
    this.go({ byWidth: !this.state.byWidth });
  }

  metric() {
    if (this.chart.model.differential) this.go({ metric: 1 - this.state.metric });
  }

  theme() {
    this.go({ theme: this.dark ? "light" : "dark" }, false);
  }

  zoomTo(/** @type {number} */ node) {
    this.chart.current = node;
    this.go({ zoom: this.graph.inFile[node] });
  }

  walkTo(/** @type {number} */ node) {
    this.chart.focusOn(node);
  }

  setCurrent(/** @type {number} */ node) {
    this.chart.focusOn(node);
    this.tell(node);
  }

  flip() {
    this.go({ flipped: !this.state.flipped });
  }

  focusSearch() {
    this.header.search.focus();
    this.header.search.select();
  }

  escape() {
    if (this.help.open) this.showHelp(false);
    else if (this.state.zoom !== 0) this.go({ zoom: 0 });
    else this.go({ search: "", lit: [], hidden: [] });
  }

  show(/** @type {State} */ state, first = false) {
    const { chart } = this;
    const before = this.state;
    this.state = state;
    const changed = (/** @type {(keyof State)[]} */ ...names) => first || names.some((name) => String(before[name]) !== String(state[name]));
    const shown = { dark: "all", light: "not all", "": "(prefers-color-scheme: dark)" };
    if (changed("theme")) this.darkRule.media.mediaText = shown[/** @type {keyof typeof shown} */ (state.theme)] ?? shown[""];
    const arranged = String([before.metric, before.byWidth, before.hidden]) !== String([state.metric, state.byWidth, state.hidden]);
    if (arranged) this.arrange();
    chart.down = this.file.head.inverted !== state.flipped;
    chart.zoomOn(this.graph.nodeOf(state.zoom));
    if (changed("zoom", "hidden", "metric") && !first && !chart.inView(chart.current)) chart.current = chart.zoom;
    if (arranged || changed("search", "matchCase")) this.find();
    if (arranged || changed("lit")) this.light();
    this.header.update(state, chart.model, this.dark, this.steps > 0);
    this.place();
    if (changed("zoom", "flipped", "hidden")) chart.scrollTo(chart.scrollFor(chart.zoom));
    this.tell();
  }

  /** Another graph of the file; the frame of the keyboard stays. */
  arrange() {
    const { metric, byWidth, hidden } = this.state;
    const current = this.graph.inFile[this.chart.current];
    this.graph = this.file.graph({ byBase: metric === 1, byWidth, hidden });
    this.chart.model = this.graph.model;
    this.chart.current = this.graph.nodeOf(current);
    this.chart.hovered = -1;
  }

  // Sizes follow the window; an SVG inside a page follows its own box.
  place() {
    const box = this.svg.getBoundingClientRect();
    const [width, height] = [Math.max(box.width, 100), Math.max(box.height, 100)];
    this.size = { width, height };
    this.top.setAttribute("width", String(width));
    const top = Math.ceil(this.header.body.getBoundingClientRect().height);
    this.top.setAttribute("height", String(top));
    this.bottom.setAttribute("width", String(width));
    this.bottom.setAttribute("y", String(height - 26));
    this.chart.resize(10, top + 2, width - 20, height - top - 30);
  }

  find() {
    this.chart.found = null;
    this.header.search.removeAttribute("aria-invalid");
    if (!this.state.search) return;
    try {
      this.chart.found = find(this.chart.model, this.state.search, this.state.matchCase);
    } catch {
      this.header.search.setAttribute("aria-invalid", "true");
    }
  }

  /** Highlights the groups chosen in the legend. */
  light() {
    const { chart } = this;
    const { lit } = this.state;
    chart.lit = lit.length ? new Found(chart.model, inGroups(chart.model, new Set(lit), chart.colors.steps)) : null;
  }

  toggleGroup(/** @type {number} */ id, /** @type {boolean} */ hide) {
    if (hide && (this.chart.model.differential || this.chart.model.limits)) return;
    const name = hide ? "hidden" : "lit";
    const now = this.state[name];
    if (!hide && this.state.hidden.includes(id)) this.go({ hidden: this.state.hidden.filter((one) => one !== id) });
    else this.go({ [name]: now.includes(id) ? now.filter((one) => one !== id) : [...now, id].sort((one, two) => one - two) });
  }

  // The bottom line: a frame on the left, the search's matches on the right.
  tell(node = this.chart.zoom) {
    const { chart } = this;
    const { model } = chart;
    const { foldedNodes } = this.file.head;
    const folded = node === 0 && foldedNodes ? `${foldedNodes.toLocaleString("en-US")} narrower frames are folded into their callers` : "";
    this.details.text.textContent = [clip(model.name(node), 300), lineOf(chart, node), folded].filter(Boolean).join("  ·  ");
    const parts = [];
    if (this.header.search.getAttribute("aria-invalid")) parts.push("not a regular expression");
    parts.push(matched(chart));
    if (chart.lit) parts.push(`Highlighted ${percent(chart.lit.covered(chart.zoom)[0].sum, model.width[chart.zoom])}`);
    this.details.matched.textContent = parts.filter(Boolean).join("  ·  ");
  }

  focusFrame() {
    this.chart.focusOn(this.chart.current);
  }

  showHelp(on = !this.help.open) {
    this.help.show(on, this.size.width, this.size.height);
    if (!on) this.focusFrame();
  }

  listen() {
    const { view } = this.chart;
    view.addEventListener("click", (event) => this.onClick(event));
    view.addEventListener("pointermove", (event) => this.onHover(event));
    view.addEventListener("pointerleave", () => this.onLeave());
    view.addEventListener("focusin", (event) => this.onFocus(event));
    view.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    view.addEventListener("pointerdown", (event) => this.onDrag(event));
    addEventListener("keydown", (event) => pressed(this, event));
    addEventListener("popstate", () => {
      this.typing = false;
      this.show(readState(location.hash, this.file));
    });
    addEventListener("resize", () => this.place());
    this.prefersDark.addEventListener("change", () => this.header.update(this.state, this.chart.model, this.dark, this.steps > 0));
  }

  onClick(/** @type {MouseEvent} */ { target }) {
    const { node, count } = /** @type {SVGElement} */ (target).dataset;
    if (node === undefined || this.dragged) return;
    const parent = this.chart.model.parent[Number(node)];
    this.tooltip.hide();
    this.zoomTo(count && parent !== this.chart.zoom ? parent : Number(node));
  }

  onHover(/** @type {PointerEvent} */ event) {
    const { node, count } = /** @type {SVGElement} */ (event.target).dataset;
    if (node === undefined || event.buttons) {
      this.onLeave();
      return;
    }
    this.tell(Number(node));
    const { left, top } = this.svg.getBoundingClientRect();
    this.tooltip.show(this.chart, Number(node), Number(count ?? 1), event.clientX - left, event.clientY - top, this.size);
    this.chart.hovered = Number(node);
  }

  onLeave() {
    this.tooltip.hide();
    this.chart.hovered = -1;
    this.tell();
  }

  onFocus(/** @type {FocusEvent} */ { target }) {
    const { node } = /** @type {SVGElement} */ (target).dataset;
    if (node === undefined) return;
    this.chart.current = Number(node);
    this.tell(Number(node));
  }

  onWheel(/** @type {WheelEvent} */ event) {
    if (event.ctrlKey || this.chart.content <= this.chart.height) return;
    event.preventDefault();
    this.tooltip.hide();
    this.chart.scrollTo(this.chart.scroll + event.deltaY * (event.deltaMode === 1 ? ROW : 1));
  }

  // A finger, or the mouse on the thumb, scrolls.
  onDrag(/** @type {PointerEvent} */ event) {
    this.dragged = false;
    const onThumb = event.target === this.chart.thumb;
    if (!onThumb && event.pointerType !== "touch") return;
    const { clientY, pointerId } = event;
    const start = this.chart.scroll;
    const factor = onThumb ? this.chart.content / this.chart.height : -1;
    const move = (/** @type {PointerEvent} */ next) => {
      if (next.pointerId !== pointerId || Math.abs(next.clientY - clientY) < 3) return;
      this.dragged = true;
      this.chart.scrollTo(start + factor * (next.clientY - clientY));
    };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  }

  copyStack(/** @type {number} */ node) {
    this.copy(collapsed(this.chart.model, node));
  }

  copyName(/** @type {number} */ node) {
    this.copy(this.chart.model.full(node));
  }

  async copy(/** @type {string} */ text) {
    try {
      await navigator.clipboard.writeText(text);
      this.details.matched.textContent = "Copied";
    } catch {
      this.details.matched.textContent = "This browser does not let a file copy";
    }
  }
}

async function start() {
  const svg = /** @type {any} */ (document.getElementById("aiflame"));
  // An old browser keeps the still picture.
  if (typeof DecompressionStream === "undefined") return;
  const source = /** @type {Element} */ (document.getElementById("aiflame-data"));
  const file = new FlameFile(await readBlock(fromBase64(source.textContent)));
  source.textContent = "";
  new App(svg, file);
}

start();
