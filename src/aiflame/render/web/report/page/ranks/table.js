// A table of the page of ranks: a title, and rows that are sorted and, if `how` allows it, filtered; the address holds both.

import { element } from "../ui/dom.js";
import { Grid } from "../ui/grid.js";

const ROW = 26;
const HEAD = 30;

export class RankTable {
  #app;
  #how;
  #table = null;
  #asked = null;
  #shown = "";
  #grid;
  #told = element("span.soft");

  /** `how`: {table, most (rows in sight), lead(row), sorted(by), columns(table): the columns to draw, cell(column, row): a cell that is no text}. */
  constructor(app, how) {
    this.#app = app;
    this.#how = how;
    this.#grid = new Grid({
      rows: (from, to) => app.data.ask("rows", { ...this.#asked, from, to }),
      sort: (sort) => how.sorted(sort),
      lead: how.lead ?? (() => null),
      cell: how.cell,
      link: (...given) => app.link(...given),
      failed: (error) => app.failed(error),
    });
    this.body = element("div.rank-table", {}, this.#grid.body);
    this.body.dataset.table = how.table;
    this.told = this.#told;
  }

  /** @param tables the answer of the call `tables` about the block; `only`: rows with this text in `column`. */
  async show(tables, { sort = "", filter = "", column = "", only = "" }) {
    this.#table = tables.find((one) => one.name === this.#how.table) ?? null;
    this.body.hidden = this.#table === null;
    if (!this.#table) return;
    const asked = { block: "ranks", table: this.#table.name, sort, filter, column, only };
    const key = JSON.stringify(asked);
    if (key === this.#shown) return;
    this.#shown = key;
    const { count } = await this.#app.data.ask("table", asked);
    if (key !== this.#shown) return;
    this.#asked = asked;
    const all = this.#table.rows;
    this.#told.textContent = filter ? `${count.toLocaleString("en-US")} of ${all.toLocaleString("en-US")}` : "";
    this.#grid.body.style.height = `${Math.max(1, Math.min(count, this.#how.most)) * ROW + HEAD}px`;
    await this.#grid.show({ ...this.#table, drawn: this.#how.columns?.(this.#table.columns) }, count, sort);
  }

  /** Whether keys go to it. */
  get focused() {
    return this.body.contains(document.activeElement);
  }

  /** Whether its rows are known. */
  get isShown() {
    return this.#asked !== null;
  }

  key(event) {
    if (event.key === "s") this.#grid.sortNext();
    else return this.#grid.key(event);
    return true;
  }

  csv() {
    return this.#app.data.ask("csv", this.#asked);
  }
}
