// Tables to sort and filter; a row leads to where its time is shown.

import { clip, percent } from "../../../text.js";
import { readChoices } from "../../shared/frame_choices.js";
import { copy, download } from "../ui/copying.js";
import { element } from "../ui/dom.js";
import { Grid } from "../ui/grid.js";
import { leadOf } from "../ui/leads.js";

const TYPING_MS = 120;

export const view = {
  name: "tables",
  title: "Tables",
  key: "6",
  scope: "remade",
  keys: [
    ["/", "filter"],
    ["↑ ↓", "choose a row"],
    ["Enter", "follow it"],
    ["s", "sort by the next column"],
    ["c", "copy as CSV"],
  ],
  create: (app) => new Tables(app),
};

class Tables {
  #app;
  #block; // the one with the tables of the page's scope
  #tables = null;
  #reading = null; // the question for them, while it is open
  #state = {};
  #shown = ""; // the table, order and filter that the grid shows
  #typing = 0; // waits for the next letter: the text in the field is not in the state yet
  #names = element("div.table-names", { role: "group", "aria-label": "Tables" });
  #filter = element("input.filter", {
    type: "search", placeholder: "Filter: text or expression  /", "aria-label": "Filter the rows", spellcheck: false,
  });
  #chip = element("span.table-chip", { hidden: true });
  #told = element("span.soft.row-count");
  #copy = element("button", { type: "button", title: "Copy the rows as CSV (c)" }, "Copy CSV");
  #save = element("button", { type: "button", title: "Save the rows as a CSV file" }, "Save CSV");
  #grid;

  constructor(app) {
    this.#app = app;
    this.#block = app.summary.tables ?? "tables";
    this.#grid = new Grid({
      rows: (from, to) => app.data.ask("rows", { ...this.#asked(), from, to }),
      sort: (sort) => this.#change({ sort }),
      lead: (row) => leadOf(this.#table(), row, app.summary),
      link: (...given) => app.link(...given),
      failed: (error) => app.failed(error),
    });
    const bar = element("div.table-bar", {}, this.#filter, this.#chip, this.#told, this.#copy, this.#save);
    this.body = element("section.tables", { "aria-label": "Tables" }, this.#names, bar, this.#grid.body);
    this.#filter.addEventListener("input", () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.#change({ filter: this.#filter.value }), TYPING_MS);
    });
    this.#filter.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.#filter.value) this.#change({ filter: "" });
      else if (event.key === "Escape" || event.key === "Enter" || event.key === "ArrowDown") this.#grid.focus();
    });
    this.#copy.addEventListener("click", () => this.#copied());
    this.#save.addEventListener("click", () => this.#saved());
  }

  async show(state) {
    this.#state = state;
    if (document.activeElement !== this.#filter) this.#filter.value = state.filter ?? "";
    if (!this.#tables) {
      this.#reading ??= this.#read().finally(() => (this.#reading = null));
      await this.#reading;
    }
    const table = this.#table();
    if (!table) {
      this.body.replaceChildren(element("p.note", {}, "There is nothing to list: no sample was taken and no device was used."));
      return;
    }
    for (const link of /** @type {Iterable<HTMLElement>} */ (this.#names.children)) {
      if (link.dataset.table === table.name) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    const asked = JSON.stringify(this.#asked());
    if (asked === this.#shown) return;
    this.#shown = asked;
    const { count, share } = await this.#app.data.ask("table", this.#asked());
    if (asked !== this.#shown) return;
    this.#sayOnly(table);
    this.#tell(table, count, share);
    await this.#grid.show(table, count, this.#asked().sort);
  }

  /** Letters that wait for more are none of the next view's. */
  leave() {
    clearTimeout(this.#typing);
    this.#typing = 0;
  }

  key(event) {
    if (event.key === "/") this.#filter.focus();
    else if (!this.#tables?.length) return false;
    else if (event.key === "c") this.#copied();
    else if (event.key === "s") this.#grid.sortNext();
    else return this.#grid.key(event);
    return true;
  }

  async #read() {
    const tables = this.#app.blocks.includes(this.#block) ? await this.#app.data.ask("tables", { block: this.#block }) : [];
    for (const { name, title, rows } of tables) {
      const count = element("span.soft", {}, ` ${rows.toLocaleString("en-US")}`);
      const link = this.#app.link(".table-name", "tables", { table: name }, title, count);
      link.dataset.table = name;
      this.#names.append(link);
    }
    this.#tables = tables;
  }

  #table() {
    return this.#tables.find((one) => one.name === this.#state.table) ?? this.#tables[0];
  }

  #asked() {
    const { sort = "", filter = "", column = "", only = "" } = this.#state;
    return { block: this.#block, table: this.#table().name, sort, filter, column, only };
  }

  #change(change) {
    const typed = this.#typing ? { filter: this.#filter.value } : {};
    clearTimeout(this.#typing);
    this.#typing = 0;
    const state = { ...this.#state, ...typed, ...change };
    this.#app.replace(state);
    if ("filter" in change && document.activeElement !== this.#filter) this.#filter.value = change.filter;
    if (change.filter === "") this.#filter.value = "";
    this.show(state).catch((error) => this.#app.failed(error));
  }

  /** Rows of certain names alone: `Cause: launch, device`. */
  #sayOnly(table) {
    const column = table.columns.find((one) => one.name === this.#state.column);
    const names = readChoices(this.#state.only).map((one) => one.text).join(", ");
    this.#chip.hidden = !column || !names;
    if (this.#chip.hidden) return;
    const says = `${column.label}: `;
    const all = () => this.#change({ column: undefined, only: undefined });
    const remove = element("button", { type: "button", title: "Show all rows", "aria-label": `Remove: ${says}${names}`, onclick: all }, "×");
    this.#chip.replaceChildren(element("span", { title: names }, says, element("bdi", {}, clip(names, 80))), remove);
  }

  #tell(table, count, share) {
    const of = count === table.rows ? "" : ` of ${table.rows.toLocaleString("en-US")}`;
    const rows = `${count.toLocaleString("en-US")}${of} ${table.rows === 1 ? "row" : "rows"}`;
    const column = table.columns.find((one) => one.kind === "share");
    this.#told.textContent = share === null ? rows : `${rows}, ${percent(share, 1)} ${column.label.replace(/^% /, "")}`;
    this.#app.say(this.#told.textContent);
  }

  async #copied() {
    const done = await copy(await this.#app.data.ask("csv", this.#asked()));
    this.#flash(this.#copy, done ? "Copied" : "Not permitted");
  }

  async #saved() {
    download(`${this.#table().name}.csv`, await this.#app.data.ask("csv", this.#asked()), "text/csv;charset=utf-8");
    this.#flash(this.#save, "Saved");
  }

  #flash(button, text) {
    button.dataset.label ??= button.textContent;
    button.textContent = text;
    this.#app.say(text);
    setTimeout(() => (button.textContent = button.dataset.label), 1200);
  }
}
