// The scope of the page, which is its steady steps or the whole run: findings, the first screen, tables and flame graphs speak of it.

import { element } from "./dom.js";

const NAMES = { steps: "Steady steps", run: "Whole run" };

export class Scopes {
  #screens; // name → the data of the first screen in that scope, or a promise of it
  #usual; // the scope of an address that names none
  #ask;
  #buttons = [];
  #note = element("span.soft.fine", { hidden: true }, "this view: whole run");
  #follows = true;

  /** @param screen the data of the first screen; @param ask for that of the other scope; @param choose called by a click on a scope */
  constructor(screen, ask, choose) {
    this.#usual = screen.scopes?.shown ?? "run";
    this.names = screen.scopes ? Object.keys(NAMES) : [this.#usual];
    this.now = this.#usual;
    this.#screens = new Map([[this.#usual, screen]]);
    this.#ask = ask;
    const body = document.getElementById("scopes");
    if (this.names.length < 2) return;
    body.append(this.#note);
    for (const name of this.names) {
      const button = element("button", { type: "button", onclick: () => choose(name) }, NAMES[name]);
      button.title = `${NAMES[name]}: what findings, tables and flame graphs speak of (w)`;
      button.dataset.scope = name;
      this.#buttons.push(button);
      body.append(button);
    }
    body.hidden = false;
    this.#mark();
  }

  /** The scope that an address means. */
  meant(name) {
    return this.names.includes(name) ? name : this.#usual;
  }

  /** As an address has it. */
  written(name = this.now) {
    return name === this.#usual ? "" : name;
  }

  /** The scope that is not shown; undefined where there is one only. */
  get other() {
    return this.names.find((name) => name !== this.now);
  }

  get otherName() {
    return this.other && NAMES[this.other];
  }

  /** The data of the first screen in this scope. */
  async screen(name) {
    if (!this.#screens.has(name)) {
      const asked = this.#ask().then((own) => ({ ...this.#screens.get(this.#usual), ...own }));
      this.#screens.set(name, asked);
      asked.catch(() => this.#screens.delete(name)); // a server may give it when asked again
    }
    return this.#screens.get(name);
  }

  enter(name) {
    this.now = name;
    this.#mark();
  }

  /** A view is shown: whether it follows the scope. Others show the whole run, and the switch says so. */
  entered(follows) {
    this.#follows = follows;
    this.#mark();
  }

  #mark() {
    this.#note.hidden = this.#follows || this.now === "run";
    for (const button of this.#buttons) button.setAttribute("aria-pressed", String(button.dataset.scope === this.now));
  }
}
