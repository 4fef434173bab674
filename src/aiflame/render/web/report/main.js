// The app: a header, the views, and the address that says which is shown and how.

import { readAddress, writeAddress } from "./address.js";
import { blockNames, Data } from "./data.js";
import { view as code } from "./view_code.js";
import { view as flame } from "./view_flame.js";
import { view as overview } from "./view_overview.js";
import { view as scope } from "./view_scope.js";
import { view as tables } from "./view_tables.js";
import { view as timeline } from "./view_timeline.js";

const VIEWS = [overview, flame, scope, timeline, code, tables];

class App {
  #views = new Map();
  #shown = "";

  constructor() {
    this.summary = JSON.parse(document.getElementById("summary").textContent);
    this.palette = JSON.parse(document.getElementById("palette").textContent);
    this.blocks = blockNames();
    this.data = new Data();
    this.main = document.querySelector("main");
    this.spoken = document.getElementById("spoken");
    for (const view of VIEWS) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = view.title;
      button.dataset.view = view.name;
      button.addEventListener("click", () => this.go(view.name, {}));
      document.querySelector("nav").append(button);
    }
    document.getElementById("theme").addEventListener("click", () => this.#setTheme(this.theme() === "dark" ? "light" : "dark"));
    addEventListener("hashchange", () => this.#show());
    addEventListener("popstate", () => this.#show());
    document.addEventListener("keydown", (event) => this.#key(event));
    this.#show();
    document.documentElement.dataset.ready = "true";
  }

  /** `light` or `dark`. */
  theme() {
    return document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  }

  /** The colour of a frame: of its kind, a shade for each name. */
  color(kind, shade) {
    return this.palette[this.theme()][kind][shade];
  }

  /** Shows a view: a new entry in the history. */
  go(name, state) {
    const address = writeAddress(name, state);
    if (address !== location.hash) history.pushState(null, "", address);
    this.#show();
  }

  /** Changes what the address says of the shown view, without a new entry in the history. */
  replace(state) {
    history.replaceState(null, "", writeAddress(this.#shown, state));
  }

  /** For screen readers. */
  say(text) {
    this.spoken.textContent = text;
  }

  #show() {
    const { view: wanted, state } = readAddress(location.hash);
    const view = VIEWS.find((one) => one.name === wanted) ?? VIEWS[0];
    if (!this.#views.has(view.name)) this.#views.set(view.name, view.create(this));
    const made = this.#views.get(view.name);
    if (this.#shown !== view.name) {
      this.#views.get(this.#shown)?.leave?.();
      this.main.replaceChildren(made.body);
      this.#shown = view.name;
      for (const button of document.querySelectorAll("nav button")) {
        if (button.dataset.view === view.name) button.setAttribute("aria-current", "page");
        else button.removeAttribute("aria-current");
      }
    }
    made.show(state);
  }

  #setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    this.#show();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    const view = VIEWS.find((one) => one.key === event.key);
    if (view) this.go(view.name, {});
  }
}

new App();
