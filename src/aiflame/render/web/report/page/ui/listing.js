// Lines of code of any number, of which only those in sight are in the page.

import { element } from "./dom.js";

const ROW = 19;
const AROUND = 24;
const CHARACTER = 7.4;

export class Listing {
  #on;
  #count = 0;
  #drawn = "";
  #lit = new Map(); // row → class
  #cursor = -1;
  #room = element("div.listing-room");

  /** `row(number)`: its cells; `enter(number)`, `leave()`: the mouse; `choose(number)`: a click or a key. */
  constructor(label, on) {
    this.#on = on;
    this.body = element("div.listing", { tabIndex: 0, role: "listbox", "aria-label": label }, this.#room);
    this.body.addEventListener("scroll", () => this.#draw());
    this.body.addEventListener("mouseleave", () => on.leave());
    this.#room.addEventListener("mouseover", (event) => this.#under(event, on.enter));
    this.#room.addEventListener("click", (event) => !getSelection().toString() && this.#under(event, on.choose));
    this.body.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#draw()).observe(this.body);
  }

  /** `longest`: characters of the longest line. */
  show(count, longest) {
    this.#count = count;
    this.#drawn = "";
    this.#lit = new Map();
    this.#cursor = -1;
    this.#room.style.height = `${count * ROW}px`;
    this.#room.style.minWidth = `${Math.round(Math.min(longest, 2000) * CHARACTER) + 180}px`;
    this.body.scrollTop = 0;
    this.body.scrollLeft = 0;
    this.#draw();
  }

  /** row → class of its highlight. */
  light(lit) {
    this.#lit = lit;
    for (const row of this.#room.children) this.#dress(row);
  }

  cursor(number) {
    this.#cursor = number;
    for (const row of this.#room.children) this.#dress(row);
  }

  /** Brings a row into sight; not at an edge, which would hide the rows around it. */
  reveal(number) {
    const [top, height] = [number * ROW, this.body.clientHeight];
    if (top < this.body.scrollTop + ROW || top > this.body.scrollTop + height - 3 * ROW) this.body.scrollTop = Math.max(0, top - height / 3);
    this.#draw();
  }

  #under(event, tell) {
    const row = event.target.closest(".line");
    if (row) tell(Number(row.dataset.row));
  }

  #key(event) {
    const page = Math.max(1, Math.floor(this.body.clientHeight / ROW) - 2);
    const move = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }[event.key];
    if (move === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const number = Math.max(0, Math.min(this.#count - 1, this.#cursor + move));
    this.#on.choose(number);
    this.reveal(number);
  }

  #draw() {
    const first = Math.floor(this.body.scrollTop / ROW);
    const from = Math.max(0, Math.floor((first - AROUND) / AROUND) * AROUND);
    const to = Math.min(this.#count, from + Math.ceil(this.body.clientHeight / ROW / AROUND + 3) * AROUND);
    const key = `${from} ${to}`;
    if (key === this.#drawn) return;
    this.#drawn = key;
    this.#room.replaceChildren();
    for (let number = from; number < to; number++) {
      const row = element("div.line", { role: "option", dataset: { row: number } }, ...this.#on.row(number));
      row.style.top = `${number * ROW}px`;
      this.#dress(row);
      this.#room.append(row);
    }
  }

  #dress(row) {
    const number = Number(row.dataset.row);
    row.className = `line ${this.#lit.get(number) ?? ""} ${number === this.#cursor ? "cursor" : ""}`;
    row.setAttribute("aria-selected", String(number === this.#cursor));
  }
}
