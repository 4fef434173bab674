// A table of any length: only the rows in sight are in the page.

import { amount, percent } from "../../../text.js";
import { element, wide } from "./dom.js";

const ROW = 26;
const HEAD = 28; // covers the rows at the top
const AROUND = 30; // rows drawn above and below those in sight
const CHARACTER = 7.4;
const [NARROWEST, WIDEST] = [58, 380];
const FIRST = 420; // as wide as the first column grows where there is room: further, and names would be far from their numbers

export class Grid {
  #on;
  #table = null;
  #columns = [];
  #count = 0;
  #sort = "";
  #drawn = ""; // which rows are in the page
  #chosen = 0;
  #head = element("div.grid-head", { role: "row" });
  #room = element("div.grid-room", { role: "rowgroup" });
  #empty = element("p.note", { hidden: true }, "No row matches.");

  /**
   * `rows(from, to)`: their values; `sort(by)`, `lead(row)`, `link(…)`, `failed(error)`; `cell(column, row)`: the cell of a column of the kind
   * `parts`.
   */
  constructor(on) {
    this.#on = on;
    this.body = element("div.grid", { role: "grid", tabIndex: 0 }, this.#head, this.#room, this.#empty);
    this.body.addEventListener("scroll", () => this.#draw());
    new ResizeObserver(() => this.#draw()).observe(this.body);
  }

  async show(table, count, sort) {
    const other = this.#table?.name !== table.name;
    this.#table = table;
    this.#columns = table.drawn ?? table.columns.filter((column, place) => place === 0 || column.filled);
    [this.#count, this.#sort, this.#drawn] = [count, sort, ""];
    this.#chosen = 0;
    this.body.setAttribute("aria-rowcount", count + 1);
    this.body.setAttribute("aria-label", table.title);
    this.#drawHead();
    this.#room.style.height = `${count * ROW}px`;
    this.#empty.hidden = count > 0;
    this.body.scrollTop = 0;
    if (other) this.body.scrollLeft = 0;
    await this.#draw();
  }

  focus() {
    this.body.focus();
  }

  /** Keys of the chosen row. */
  key(event) {
    const page = Math.max(1, Math.floor(this.body.clientHeight / ROW) - 2);
    const moves = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page, Home: -this.#count, End: this.#count };
    if (event.key === "Enter" && event.target.closest("button, a")) return false;
    if (event.key === "Enter") /** @type {HTMLElement} */ (this.#room.querySelector(".chosen a"))?.click();
    else if (event.key in moves) this.#choose(this.#chosen + moves[event.key]);
    else return false;
    return true;
  }

  /** By the column after the one that it is sorted by. */
  sortNext() {
    if (!this.#table) return;
    const at = this.#columns.findIndex((column) => column.name === this.#sort.replace(/^-/, ""));
    const order = [...this.#columns.slice(at + 1), ...this.#columns.slice(0, at + 1)];
    this.#on.sort(firstWay(order.find((column) => column.kind !== "parts")));
  }

  #drawHead() {
    const widths = this.#columns.map(width);
    const template = widths.map((one, place) => (place === 0 ? `minmax(${one}px, ${Math.max(one, FIRST)}px)` : `${one}px`)).join(" ");
    this.body.style.setProperty("--columns", template);
    this.body.style.setProperty("--wide", `${widths.reduce((sum, one) => sum + one, 0)}px`);
    this.#head.replaceChildren(...this.#columns.map((column) => this.#heading(column)));
  }

  #heading(column) {
    if (column.kind === "parts") return element("div.cell", { role: "columnheader" }, column.label);
    const [way, name] = [this.#sort.startsWith("-") ? "descending" : "ascending", this.#sort.replace(/^-/, "")];
    const sorted = name === column.name;
    const arrow = sorted ? (way === "descending" ? " ↓" : " ↑") : "";
    const button = element("button", { type: "button", title: `Sort by ${column.label}` }, column.label, arrow);
    const other = this.#sort === firstWay(column) ? turned(this.#sort) : firstWay(column);
    button.addEventListener("click", () => this.#on.sort(other));
    return element(`div.cell.${classOf(column)}`, { role: "columnheader", "aria-sort": sorted ? way : "none" }, button);
  }

  async #draw() {
    if (!this.#table) return;
    const first = Math.floor(this.body.scrollTop / ROW);
    const from = Math.max(0, Math.floor((first - AROUND) / AROUND) * AROUND);
    const to = Math.min(this.#count, from + Math.ceil(this.body.clientHeight / ROW / AROUND + 3) * AROUND);
    const key = `${from} ${to} ${this.#chosen}`;
    if (key === this.#drawn) return;
    this.#drawn = key;
    try {
      const rows = to > from ? await this.#on.rows(from, to) : [];
      if (key === this.#drawn) this.#room.replaceChildren(...rows.map((values, place) => this.#row(values, from + place)));
    } catch (error) {
      this.#on.failed(error);
    }
  }

  #row(values, number) {
    const named = Object.fromEntries(this.#table.columns.map((column, place) => [column.name, values[place]]));
    const lead = this.#on.lead(named);
    const cells = this.#columns.map((column, place) => this.#cell(column, named, place === 0 ? lead : null));
    const row = element(number === this.#chosen ? "div.row.chosen" : "div.row", { role: "row", "aria-rowindex": number + 2 }, ...cells);
    row.style.top = `${number * ROW}px`;
    row.addEventListener("click", (event) => !(/** @type {Element} */ (event.target).closest("a")) && this.#choose(number));
    row.addEventListener("dblclick", () => row.querySelector("a")?.click());
    return row;
  }

  #cell(column, row, lead) {
    if (column.kind === "parts") return element("div.cell.parts", { role: "gridcell" }, this.#on.cell(column, row));
    const value = row[column.name];
    const text = written(column, value);
    const full = column.kind === "place" || column.kind === "text" ? value : "";
    const inside = lead ? this.#on.link("", ...lead, text || "(no name)") : element("span", {}, text);
    const bar = column.kind === "share" && value > 0 ? wide(element("i", { "aria-hidden": "true" }), value / (column.most || 1)) : null;
    return element(`div.cell.${classOf(column)}`, { role: "gridcell", title: full.length > 12 ? full.slice(0, 2000) : "" }, bar, inside);
  }

  #choose(number) {
    this.#chosen = Math.max(0, Math.min(this.#count - 1, number));
    const [top, bottom] = [this.#chosen * ROW, (this.#chosen + 1) * ROW + HEAD];
    if (top < this.body.scrollTop) this.body.scrollTop = top;
    else if (bottom > this.body.scrollTop + this.body.clientHeight) this.body.scrollTop = bottom - this.body.clientHeight;
    this.#draw();
  }
}

/** A number's largest first, a text's A first. */
function firstWay({ name, scale }) {
  return scale === 0 ? name : `-${name}`;
}

function turned(sort) {
  return sort.startsWith("-") ? sort.slice(1) : `-${sort}`;
}

function classOf({ kind }) {
  return kind === "number" ? "number" : kind === "share" ? "number.share" : kind;
}

function width(column) {
  if (column.width) return column.width;
  const texts = column.scale === 0 ? column.longest : Math.max(written(column, column.most).length, 6);
  return Math.round(Math.min(Math.max(Math.max(texts, column.label.length + 2) * CHARACTER + 22, NARROWEST), WIDEST));
}

function written({ kind, unit }, value) {
  if (value === null) return "";
  if (kind === "text") return value;
  if (kind === "place") return value.slice(value.lastIndexOf("/") + 1);
  if (kind === "share") return percent(value, 1);
  if (unit === "bytes/s") return `${amount(value, "bytes")}/s`;
  return unit ? amount(value, unit) : value.toLocaleString("en-US");
}
