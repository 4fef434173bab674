// Puts the parts together: every action makes a new state, the state is shown and written into the address.

import { fromBase64, readBlock } from "../blocks.js";
import { clip, percent } from "../text.js";
import { Chart, element, ROW } from "./chart.js";
import { onKey } from "./keys.js";
import { Model } from "./model.js";
import { Details, facts, Header, Help, Tooltip } from "./panels.js";
import { readState, writeState } from "./state.js";

class App {
  constructor(svg, model) {
    this.svg = svg;
    this.model = model;
    const act = {
      search: (text, done) => this.search(text, done),
      matchCase: () => this.go({ matchCase: !this.state.matchCase }),
      undo: () => this.undo(),
      reset: () => this.go({ zoom: 0 }),
      metric: () => this.go({ metric: 1 - this.state.metric }),
      order: () => this.go({ byWidth: !this.state.byWidth }),
      flip: () => this.go({ flipped: !this.state.flipped }),
      theme: () => this.go({ theme: this.dark ? "light" : "dark" }, false),
      help: () => this.showHelp(!this.help.open),
      group: (id, hide) => this.toggleGroup(id, hide),
      leaveSearch: () => this.chart.focusOn(this.chart.focus),
    };
    this.act = act;
    this.header = new Header(model, act);
    this.details = new Details();
    this.tooltip = new Tooltip(model);
    this.help = new Help(() => this.showHelp(false));
    this.darkRule = svg.querySelector("#aiflame-dark").sheet.cssRules[0];
    this.prefersDark = matchMedia("(prefers-color-scheme: dark)");

    svg.querySelector("#aiflame-still").remove();
    for (const name of ["viewBox", "role"]) svg.removeAttribute(name);
    svg.classList.add("af-live");
    this.top = element("foreignObject", { x: 0, y: 0, width: 10, height: 10 }, this.header.body);
    this.bottom = element("foreignObject", { x: 0, width: 10, height: 26 }, this.details.body);
    svg.append(this.top);
    this.chart = new Chart(model, svg);
    svg.append(this.bottom, this.tooltip.holder, this.help.holder);

    this.listen();
    this.show(readState(location.hash, model), true);
    this.chart.scrollToZoom();
    svg.dataset.ready = "true";
  }

  get dark() {
    return this.state.theme ? this.state.theme === "dark" : this.prefersDark.matches;
  }

  get steps() {
    return history.state?.aiflame ?? 0;
  }

  go(change, push = true) {
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
  search(text, done) {
    const { typing } = this;
    this.go({ search: text }, !typing);
    this.typing = !done;
  }

  undo() {
    if (this.steps > 0) history.back();
  }

  show(state, first = false) {
    const before = this.state;
    this.state = state;
    const changed = (...names) => first || names.some((name) => String(before[name]) !== String(state[name]));
    if (changed("theme")) this.darkRule.media.mediaText = { dark: "all", light: "not all" }[state.theme] ?? "(prefers-color-scheme: dark)";
    if (changed("metric", "byWidth", "hidden")) {
      this.model.arrange({ metric: state.metric, byWidth: state.byWidth, hidden: new Set(state.hidden) });
    }
    this.chart.inverted = this.model.head.inverted !== state.flipped;
    this.chart.zoom = this.model.shown(state.zoom);
    if (this.model.total[this.chart.zoom] === 0) this.chart.zoom = 0;
    if (changed("zoom", "hidden", "metric") && !this.chart.inView(this.chart.focus)) this.chart.focus = this.chart.zoom;
    this.chart.focus = this.model.shown(this.chart.focus);
    if (changed("search", "matchCase")) this.find();
    if (changed("lit", "metric")) this.dim();
    this.header.update(state, this.dark, this.steps > 0);
    this.place();
    if (changed("zoom", "flipped", "hidden")) this.chart.scrollToZoom();
    this.tell();
  }

  // Sizes follow the window; an SVG inside a page follows its own box.
  place() {
    const box = this.svg.getBoundingClientRect();
    const [width, height] = [Math.max(box.width, 100), Math.max(box.height, 100)];
    this.size = { width, height };
    this.top.setAttribute("width", width);
    const top = Math.ceil(this.header.body.getBoundingClientRect().height);
    this.top.setAttribute("height", top);
    this.bottom.setAttribute("width", width);
    this.bottom.setAttribute("y", height - 26);
    this.chart.resize(10, top + 2, width - 20, height - top - 30);
  }

  find() {
    this.chart.found = null;
    this.header.search.removeAttribute("aria-invalid");
    if (!this.state.search) return;
    try {
      this.chart.found = this.model.find(this.state.search, this.state.matchCase);
    } catch {
      this.header.search.setAttribute("aria-invalid", "true");
    }
  }

  dim() {
    const { lit } = this.state;
    this.chart.dimmed = lit.length ? Uint8Array.from(this.model.group, (group) => Number(!lit.includes(group))) : null;
  }

  toggleGroup(id, hide) {
    if (hide && this.model.differential) return;
    const name = hide ? "hidden" : "lit";
    const now = this.state[name];
    if (!hide && this.state.hidden.includes(id)) this.go({ hidden: this.state.hidden.filter((one) => one !== id) });
    else this.go({ [name]: now.includes(id) ? now.filter((one) => one !== id) : [...now, id].sort((one, two) => one - two) });
  }

  // The bottom line: the frame in question on the left, what was found on the right.
  tell(node = this.chart.zoom) {
    const { model, chart } = this;
    const name = clip(model.name(node), 300);
    const folded = model.head.foldedNodes ? `${model.head.foldedNodes.toLocaleString("en-US")} narrower frames are folded into their callers` : "";
    this.details.text.textContent = [name, ...facts(model, node, chart.zoom), node === 0 ? folded : ""].filter(Boolean).join("  ·  ");
    const parts = [];
    const inZoom = model.total[chart.zoom];
    if (this.header.search.getAttribute("aria-invalid")) parts.push("not a regular expression");
    if (chart.found) {
      const { sum, count } = model.covered(chart.found, chart.zoom);
      parts.push(`Matched ${percent(sum, inZoom)} · ${count.toLocaleString("en-US")} ${count === 1 ? "frame" : "frames"}`);
    }
    if (chart.dimmed) {
      const { sum } = model.covered(chart.dimmed.map((dim) => 1 - dim), chart.zoom);
      parts.push(`Highlighted ${percent(sum, inZoom)}`);
    }
    this.details.matched.textContent = parts.join("  ·  ");
  }

  showHelp(on) {
    this.help.show(on, this.size.width, this.size.height);
    if (!on) this.chart.focusOn(this.chart.focus);
  }

  listen() {
    const { view } = this.chart;
    view.addEventListener("click", (event) => this.onClick(event));
    view.addEventListener("pointermove", (event) => this.onHover(event));
    view.addEventListener("pointerleave", () => this.onLeave());
    view.addEventListener("focusin", (event) => this.onFocus(event));
    view.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    view.addEventListener("pointerdown", (event) => this.onDrag(event));
    addEventListener("keydown", (event) => onKey(this, event));
    addEventListener("popstate", () => {
      this.typing = false;
      this.show(readState(location.hash, this.model));
    });
    addEventListener("resize", () => this.place());
    this.prefersDark.addEventListener("change", () => this.header.update(this.state, this.dark, this.steps > 0));
  }

  onClick(event) {
    const { node, count } = event.target.dataset;
    if (node === undefined || this.dragged) return;
    const parent = this.model.shown(this.model.parent[node]);
    const target = count && parent !== this.chart.zoom ? parent : Number(node);
    this.chart.focus = target;
    this.tooltip.hide();
    this.go({ zoom: target });
  }

  onHover(event) {
    const { node, count } = event.target.dataset;
    if (node === undefined || event.buttons) return this.onLeave();
    this.tell(Number(node));
    const { left, top } = this.svg.getBoundingClientRect();
    this.tooltip.show(Number(node), Number(count ?? 1), this.chart.zoom, event.clientX - left, event.clientY - top, this.size.width, this.size.height);
    this.hovered = Number(node);
    return undefined;
  }

  onLeave() {
    this.tooltip.hide();
    this.hovered = undefined;
    this.tell();
  }

  onFocus(event) {
    const { node } = event.target.dataset;
    if (node === undefined) return;
    this.chart.focus = Number(node);
    this.tell(Number(node));
  }

  onWheel(event) {
    if (event.ctrlKey || this.chart.height <= this.chart.viewHeight) return;
    event.preventDefault();
    this.tooltip.hide();
    this.chart.scrollTo(this.chart.scroll + event.deltaY * (event.deltaMode === 1 ? ROW : 1));
  }

  // A finger, or the mouse on the thumb, scrolls.
  onDrag(event) {
    this.dragged = false;
    const onThumb = event.target === this.chart.thumb;
    if (!onThumb && event.pointerType !== "touch") return;
    const { clientY, pointerId } = event;
    const start = this.chart.scroll;
    const factor = onThumb ? this.chart.height / this.chart.viewHeight : -1;
    const move = (next) => {
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

  async copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      this.details.matched.textContent = "Copied";
    } catch {
      this.details.matched.textContent = "This browser does not let a file copy";
    }
  }
}

async function start() {
  const svg = document.getElementById("aiflame");
  // An old browser keeps the still picture.
  if (typeof DecompressionStream === "undefined") return;
  const source = document.getElementById("aiflame-data");
  const model = new Model(await readBlock(fromBase64(source.textContent)));
  source.textContent = "";
  new App(svg, model);
}

start();
