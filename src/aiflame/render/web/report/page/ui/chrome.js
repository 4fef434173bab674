// The page around the views: light or dark, the list of keys, the line for errors.

import { element } from "./dom.js";

const KEPT = "aiflame-theme";

export class Theme {
  #changed;

  constructor(changed) {
    this.#changed = changed;
    const kept = stored();
    if (kept) document.documentElement.dataset.theme = kept;
    document.getElementById("theme").addEventListener("click", () => this.turn());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => changed());
  }

  now() {
    return document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  }

  turn() {
    const theme = this.now() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem(KEPT, theme);
    } catch {
      // some browsers keep nothing for files
    }
    this.#changed();
  }
}

function stored() {
  try {
    const kept = localStorage.getItem(KEPT);
    return kept === "light" || kept === "dark" ? kept : "";
  } catch {
    return "";
  }
}

/** The keys of the page, and those of the shown view: `view.keys`, [key, description]. */
export class Help {
  #views;
  #more;
  #dialog = null;

  /** `more`: keys of this page alone. */
  constructor(views, more = []) {
    this.#views = views;
    this.#more = more;
    const shown = () => /** @type {HTMLElement} */ (document.querySelector("nav a[aria-current]"))?.dataset.view;
    document.getElementById("help").addEventListener("click", () => this.toggle(shown()));
  }

  toggle(shown) {
    if (this.#dialog?.open) {
      this.#dialog.close();
      return;
    }
    this.#dialog?.remove();
    const own = this.#views.find((view) => view.name === shown);
    const general = [...this.#views.map((view) => [view.key, view.title]), ...this.#more, ["t", "light or dark"], ["?", "this list"]];
    const close = element("button", { type: "button", onclick: () => this.#dialog.close() }, "Close");
    this.#dialog = element("dialog.help", {}, ...listed("Keys", general), ...(own?.keys?.length ? listed(own.title, own.keys) : []), close);
    this.#dialog.addEventListener("click", (event) => event.target === this.#dialog && this.#dialog.close());
    document.body.append(this.#dialog);
    this.#dialog.showModal();
  }
}

function listed(title, keys) {
  const rows = keys.flatMap(([key, what]) => [element("dt", {}, element("kbd", {}, key)), element("dd", {}, what)]);
  return [element("h2", {}, title), element("dl", {}, ...rows)];
}

export class Failure {
  #line = document.getElementById("failed");

  show(text) {
    const hide = () => (this.#line.hidden = true);
    const close = element("button.icon", { type: "button", title: "Close", "aria-label": "Close", onclick: hide }, "×");
    this.#line.replaceChildren(element("span", {}, text), close);
    this.#line.hidden = false;
  }
}
