// The toolbar: metric, grouping, search, and one menu for how the graph is drawn.

import { toMatch } from "../../../flame/keys.js";
import { shortLabel } from "../../../text.js";
import { element } from "../ui/dom.js";
import { metricsOf } from "./state.js";

const PATIENT_NODES = 200_000; // in a larger tree a search waits until the typing pauses
const PAUSE_MS = 120;

export class Toolbar {
  #typing = 0;
  #offered = "";

  constructor(view) {
    this.view = view;
    this.metric = element("select", { "aria-label": "Metric", name: "metric", onchange: () => this.#chooseMetric() });
    this.by = element("select", { "aria-label": "Group by", name: "by", onchange: () => view.change({ by: this.by.value }) });
    this.undo = button("Back", "Back to what was shown before (Backspace)", () => view.undo());
    this.reset = button("Show all", "Show everything (Escape)", () => view.zoomTo(0));
    this.field = element("input", {
      type: "text", className: "flame-search", placeholder: "Search (/)", "aria-label": "Search frames with a regular expression",
      spellcheck: false, autocomplete: "off",
      oninput: () => this.#typed(),
      onkeydown: (event) => this.#searchKey(event),
    });
    this.matchCase = button("Aa", "Match case", () => view.change({ case: view.state.case ? "" : "1" }));
    this.previous = button("‹", "Previous match (N)", () => toMatch(view, -1));
    this.next = button("›", "Next match (n)", () => toMatch(view, 1));
    this.menu = new ViewMenu(view);
    this.body = element(
      "div.flame-tools", { role: "toolbar", "aria-label": "Flame graph" },
      element("label", {}, element("span", {}, "Metric"), this.metric),
      element("label", {}, element("span", {}, "Group by"), this.by),
      element("span.flame-find", {}, this.field, this.matchCase, this.previous, this.next),
      element("span.flame-spring", {}),
      this.undo, this.reset, this.menu.body,
    );
  }

  focusSearch() {
    this.field.focus();
    this.field.select();
  }

  update() {
    const { view } = this;
    this.#offer();
    this.metric.value = view.model.metric.name;
    this.by.value = view.state.by || view.info.groupings[0].name;
    if (document.activeElement !== this.field) this.field.value = view.state.search;
    this.field.toggleAttribute("aria-invalid", Boolean(view.wrong));
    this.matchCase.setAttribute("aria-pressed", String(view.state.case === "1"));
    for (const one of [this.matchCase, this.previous, this.next]) one.hidden = !view.state.search;
    this.undo.disabled = !view.canUndo;
    this.reset.disabled = !view.state.zoom && !view.state.at;
    this.menu.update();
  }

  /** All metrics of all domains; those of the shown domain come from its facts. */
  #offer() {
    const { view } = this;
    const key = `${view.domain} ${view.domains}`;
    if (this.#offered === key) return;
    this.#offered = key;
    const metrics = view.domains.flatMap((domain) => (domain === view.domain ? view.info.metrics : metricsOf(domain, view.metrics)));
    this.metric.replaceChildren(...metrics.map((one) => element("option", { value: one.name, title: one.label }, shortLabel(one))));
    this.by.replaceChildren(...view.info.groupings.map(({ name, label }) => element("option", { value: name }, label)));
  }

  #chooseMetric() {
    const metric = this.metric.value;
    this.view.change({ metric, domain: "", detail: "" });
  }

  #typed() {
    clearTimeout(this.#typing);
    const { view } = this;
    if (view.model?.count > PATIENT_NODES) this.#typing = setTimeout(() => view.search(this.field.value, false), PAUSE_MS);
    else view.search(this.field.value, false);
  }

  #searchKey(event) {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    clearTimeout(this.#typing);
    if (event.key === "Escape") {
      this.field.value = "";
      this.view.search("", false);
      this.view.stage.focus();
      return;
    }
    if (this.field.value !== this.view.state.search) this.view.search(this.field.value, false);
    toMatch(this.view, event.shiftKey ? -1 : 1);
    this.field.focus();
  }
}

/** Options that people change seldom, behind one button. */
class ViewMenu {
  #groups = [];

  constructor(view) {
    this.view = view;
    this.button = button("View ▾", "Direction, order, detail, colours", () => this.toggle());
    this.button.setAttribute("aria-haspopup", "true");
    this.panel = element(
      "div.flame-panel", { hidden: true, role: "group", "aria-label": "View" },
      this.#choice("dir", "Direction", [["up", "flame: callees above"], ["down", "icicle: callees below"]]),
      this.#choice("order", "Order of siblings", [["name", "by name"], ["width", "by width"], ["time", "by first time"]]),
      this.#choice("detail", "Detail", [["function", "functions"], ["line", "lines"], ["instruction", "instructions"]]),
      this.#choice("color", "Colours", [["", "by kind"], ["limit", "by % of the device's limit (k)"]]),
      element(
        "fieldset", {},
        this.#switch("mine", "1", "My code only: packages folded (p)"),
        this.#switch("inverted", "1", "Bottom-up (inverted)"),
        this.#switch("recursion", "merged", "Collapse recursion"),
        this.#switch("idle", "1", "Time in which the GPU was idle", "0"),
        this.#switch("against", "rest", "Compare with the rest of the run"),
        this.#switch("base", "0", "Without the baseline"),
        this.#switch("scale", "total", "Scaled to the same total: colours show changed shares"),
        this.#switch("widths", "base", "Widths of the baseline, or of the rest: shows frames that are gone"),
      ),
    );
    this.body = element("span.flame-menu-holder", {}, this.button, this.panel);
    document.addEventListener("pointerdown", (event) => !this.body.contains(/** @type {Node} */ (event.target)) && this.toggle(false));
    this.panel.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      this.toggle(false);
      this.button.focus();
    });
  }

  toggle(open = this.panel.hidden) {
    this.panel.hidden = !open;
    this.button.setAttribute("aria-expanded", String(open));
    if (open) /** @type {HTMLElement} */ (this.panel.querySelector("input:checked"))?.focus();
  }

  update() {
    const { state, chart, model } = this.view;
    const now = { dir: chart.down ? "down" : "up", order: state.order, detail: model.detail, idle: model.idle.shown ? "1" : "0" };
    for (const { key, input, value } of this.#groups) input.checked = (now[key] ?? state[key]) === value;
    const useless = {
      idle: model.idle.share === 0,
      against: !state.range && !state.steps && !state.ranks,
      base: model.against || !this.view.app.blocks.includes(`base.${this.view.domain}`),
      scale: !model.differential,
      widths: !model.differential,
    };
    for (const { key, input } of this.#groups) if (key in useless) input.parentElement.hidden = useless[key];
    const colors = this.#groups.find(({ key }) => key === "color").input.closest("fieldset");
    colors.hidden = !this.view.info.limits.includes(model.metric.name) || model.differential;
    for (const { key, input } of this.#groups) if (key === "dir") input.disabled = Boolean(state.sandwich);
  }

  #choice(key, title, options) {
    const rows = options.map(([value, label]) => this.#input("radio", key, value, label, () => this.view.change({ [key]: value })));
    return element("fieldset", {}, element("legend", {}, title), ...rows);
  }

  #switch(key, value, label, off = "") {
    return this.#input("checkbox", key, value, label, (input) => this.view.change({ [key]: input.checked ? value : off }));
  }

  #input(type, key, value, label, chosen) {
    const input = element("input", { type, name: `flame-${key}`, value, onchange: () => chosen(input) });
    this.#groups.push({ key, input, value });
    return element("label", {}, input, ` ${label}`);
  }
}

function button(label, title, onclick) {
  return element("button", { type: "button", title, "aria-label": title, onclick }, label);
}
