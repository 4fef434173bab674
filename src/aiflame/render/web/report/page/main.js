// The app: a header, the views, and the address that says which is shown and how.

import { view as code } from "./code/view.js";
import { view as flame } from "./flame/view.js";
import { view as limits } from "./limits/view.js";
import { view as memory } from "./memory/view.js";
import { view as overview } from "./overview/view.js";
import { view as ranks } from "./ranks/view.js";
import { view as scope } from "./scope/view.js";
import { view as source } from "./source/view.js";
import { view as tables } from "./tables/view.js";
import { view as timeline } from "./timeline/view.js";
import { readAddress, writeAddress } from "./ui/address.js";
import { Failure, Help, Theme } from "./ui/chrome.js";
import { Data, firstScreen } from "./ui/data.js";
import { element } from "./ui/dom.js";
import { Scopes } from "./ui/scopes.js";

const VIEWS = [overview, flame, scope, timeline, code, source, tables, ranks, limits, memory];
const PATIENCE_MS = 150; // an answer within this time needs no progress line

class App {
  #offered = VIEWS;
  #views = new Map();
  #shown = "";
  #theme = new Theme(() => this.#show());
  #failure = new Failure();
  #main = document.querySelector("main");
  #progress = document.getElementById("progress");
  #slow = 0;
  #scopes;

  constructor() {
    addEventListener("unhandledrejection", (event) => this.failed(event.reason));
    addEventListener("error", (event) => this.failed(event.error ?? event.message));
    this.palette = JSON.parse(document.getElementById("palette").textContent);
    this.data = new Data((open) => this.#busy(open > 0));
  }

  async start() {
    this.#busy(true);
    const reading = element("p.note", {}, "Reading the profile…");
    const patience = setTimeout(() => this.#main.append(reading), PATIENCE_MS);
    try {
      this.summary = await firstScreen();
    } finally {
      clearTimeout(patience);
      reading.remove();
      this.#busy(false);
    }
    this.blocks = this.summary.blocks;
    this.#scopes = new Scopes(this.summary, () => this.data.ask("overview.other"), (name) => this.chooseScope(name));
    const there = VIEWS.filter((view) => view.there?.(this) ?? true);
    this.#offered = there.map((view) => ({ ...view, title: view.titled?.(this) ?? view.title }));
    for (const view of this.#offered) this.#addToNavigation(view);
    const help = new Help(this.#offered, this.otherScope ? [["w", "steady steps or the whole run"]] : []);
    addEventListener("popstate", () => this.#show());
    document.addEventListener("keydown", (event) => this.#key(event, help));
    this.#show();
    document.documentElement.dataset.ready = "true";
  }

  /** `light` or `dark`. */
  theme() {
    return this.#theme.now();
  }

  /** The colour of a frame: of its kind, a shade for each name. */
  color(kind, shade) {
    return this.palette[this.theme()][kind][shade];
  }

  /** `steps`: the steady ones; or `run`: all of it. */
  get scope() {
    return this.#scopes.now;
  }

  /** The words for the other scope; undefined where the profile has no steady steps. */
  get otherScope() {
    return this.#scopes.otherName;
  }

  /** The present view in another scope, by default the one that is not shown: a new entry in the history. */
  chooseScope(name = this.#scopes.other) {
    if (name === undefined || name === this.scope) return;
    const { view, state } = readAddress(location.hash);
    history.pushState(null, "", writeAddress(view || this.#shown, { ...state, scope: this.#scopes.written(name) }));
    this.#show();
  }

  /** Whether the shown view follows the scope: memory at a moment does not. */
  followsScope(follows) {
    this.#scopes.entered(follows);
  }

  /** Shows a view: a new entry in the history. */
  go(name, state) {
    const address = this.#address(name, state);
    if (address !== location.hash) history.pushState(null, "", address);
    this.#show();
  }

  /** A link that does the same, and can be opened in a new tab, too; `classes` as in `.button`. */
  link(classes, name, state, ...content) {
    return element(`a${classes}`, { href: this.#address(name, state) }, ...content);
  }

  /** Writes the shown view's state into the address, without a new entry in the history. */
  replace(state) {
    history.replaceState(null, "", this.#address(this.#shown, state));
  }

  /** For screen readers. */
  say(text) {
    document.getElementById("spoken").textContent = text;
  }

  /** Shows an error in one line, above the present view. */
  failed(error) {
    this.#failure.show(String(error?.message ?? error));
  }

  #address(name, state) {
    return writeAddress(name, { ...state, scope: this.#scopes.written() });
  }

  #addToNavigation(view) {
    const link = this.link("", view.name, {}, view.title);
    link.dataset.view = view.name;
    link.title = `${view.title} (${view.key})`;
    document.querySelector("nav").append(link);
  }

  /** Views of `summary` are made again, links get the scope into their addresses. */
  async #enterScope(name) {
    const screen = await this.#scopes.screen(name);
    if (this.#scopes.meant(readAddress(location.hash).state.scope) !== name) return;
    this.summary = screen;
    this.#scopes.enter(name);
    for (const { name: view, scope: follows } of this.#offered) {
      if (follows !== "remade") continue;
      this.#views.get(view)?.body.remove();
      this.#views.delete(view);
      if (this.#shown === view) this.#shown = "";
    }
    for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("nav a"))) link.href = this.#address(link.dataset.view, {});
    this.say(screen.scope);
  }

  #show() {
    const { view: wanted, state: { scope, ...state } } = readAddress(location.hash);
    const meant = this.#scopes.meant(scope);
    if (meant !== this.scope) {
      this.#enterScope(meant).then(() => this.#show()).catch((error) => this.failed(error));
      return;
    }
    const view = this.#offered.find((one) => one.name === wanted) ?? this.#offered[0];
    try {
      if (!this.#views.has(view.name)) {
        const made = view.create(this);
        this.#views.set(view.name, made);
        made.body.classList.add("view");
        made.body.dataset.of = view.name;
        made.body.hidden = true;
        this.#main.append(made.body);
      }
      if (this.#shown !== view.name) this.#enter(view);
      Promise.resolve(this.#views.get(view.name).show(state)).catch((error) => this.failed(error));
    } catch (error) {
      this.failed(error);
    }
  }

  #enter(view) {
    const before = this.#views.get(this.#shown);
    before?.leave?.();
    if (before) before.body.hidden = true;
    this.#views.get(view.name).body.hidden = false;
    this.#shown = view.name;
    this.#scopes.entered(view.scope !== undefined);
    for (const link of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("nav a"))) {
      if (link.dataset.view === view.name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.querySelector("nav a[aria-current]").scrollIntoView?.({ block: "nearest", inline: "nearest" });
  }

  #busy(open) {
    clearTimeout(this.#slow);
    if (open) this.#slow = setTimeout(() => (this.#progress.hidden = false), PATIENCE_MS);
    else this.#progress.hidden = true;
  }

  /** Keys that no view takes. The shown view comes first: its `key(event)` returns true for keys that it takes. */
  #key(event, help) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea") || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]")) {
      if (event.key === "?") help.toggle(this.#shown);
      return; // Escape is the dialog's own
    }
    if (this.#views.get(this.#shown)?.key?.(event)) {
      event.preventDefault();
      return;
    }
    const views = this.#offered.filter((one) => one.key === event.key); // source code has two where kernels ran
    const view = views.find((one) => one.name !== this.#shown) ?? views[0];
    if (view) this.go(view.name, {});
    else if (event.key === "?") help.toggle(this.#shown);
    else if (event.key === "t") this.#theme.turn();
    else if (event.key === "w") this.chooseScope();
  }
}

const app = new App();
app.start().catch((error) => app.failed(error));
