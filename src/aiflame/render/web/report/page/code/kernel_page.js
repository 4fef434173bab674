// One kernel: its facts, its source beside its instructions, and the way from one to the other.

import { percent } from "../../../text.js";
import { copy } from "../ui/copying.js";
import { element } from "../ui/dom.js";
import { Listing } from "../ui/listing.js";
import { factsOf } from "./kernel_facts.js";
import { legend, stallBar, stallWords } from "./stalls.js";

export class KernelPage {
  #app;
  #changed;
  #kernel = null;
  #file = null; // of kernel.files, or {path, text} of a kept file
  #lines = []; // texts of the file's lines
  #ofLine = new Map(); // number of a source line → its row of file.lines
  #pinned = null; // {side, row}
  #hottest = { source: [], sass: [] };
  #side = "source"; // where n and p go
  #head = element("div.kernel-head");
  #tabs = element("div.file-tabs", { role: "group", "aria-label": "Files" });
  #missing = element("p.soft.fine.missing", { hidden: true });
  #copied = element("button.fine", { type: "button", title: "Copy the instructions (c)" }, "Copy");
  #panes = element("div.panes");

  constructor(app, changed) {
    this.#app = app;
    this.#changed = changed;
    const listening = (side) => ({
      row: (number) => this.#row(side, number),
      enter: (number) => !this.#pinned && this.#light(side, number),
      leave: () => !this.#pinned && this.#dark(),
      choose: (number) => this.#pin(side, number),
    });
    this.source = new Listing("Source", listening("source"));
    this.sass = new Listing("Instructions", listening("sass"));
    this.#copied.addEventListener("click", () => this.#copy());
    this.body = element("div.kernel", {}, this.#head, this.#panes);
    for (const side of ["source", "sass"]) this[side].body.addEventListener("focus", () => (this.#side = side));
  }

  show(kernel, state) {
    this.#kernel = kernel;
    this.#pinned = null;
    this.#head.replaceChildren(...factsOf(kernel), kernel.shown_samples ? legend(kernel) : "");
    const kept = kernel.kept.filter(([, text]) => text >= 0);
    const tabs = [...kernel.files, ...kept.map(([path, text]) => ({ path, text, kept: true, lines: [] }))];
    this.#tabs.replaceChildren(...tabs.map((file) => this.#tab(file)));
    const source = tabs.length ? element("section.pane", { "aria-label": "Source" }, this.#tabs, this.#missing, this.source.body) : null;
    const met = kernel.instructions.length > 0;
    const code = met ? element("section.pane", { "aria-label": "Instructions" }, this.#sassHead(), this.sass.body) : null;
    this.#panes.replaceChildren(...[source, code].filter(Boolean));
    this.#panes.classList.toggle("single", !source || !code);
    this.#side = source && kernel.files.length ? "source" : "sass";
    if (code) this.sass.show(kernel.instructions.length, Math.max(...kernel.instructions.map((one) => one.sass.length)));
    this.#hottest.sass = hottest(kernel.instructions);
    const wanted = tabs.find((file) => file.path === state.file || state.place?.startsWith(`${file.path}:`)) ?? tabs[0];
    if (!wanted) this.#first();
    else this.#open(wanted).then(() => this.#first(state)).catch((error) => this.#app.failed(error));
  }

  /** The same kernel, another place. */
  go(state) {
    const file = this.#kernel?.files.find((one) => state.place?.startsWith(`${one.path}:`));
    if (file) this.#open(file).then(() => this.#first(state)).catch((error) => this.#app.failed(error));
  }

  key(event) {
    if (!this.#kernel) return false;
    if (event.key === "n" || event.key === "p") this.#next(event.key === "n" ? 1 : -1);
    else if (event.key === "Escape") this.#letGo();
    else if (event.key === "c") this.#copy();
    else return false;
    return true;
  }

  #tab(file) {
    const name = file.path.slice(file.path.lastIndexOf("/") + 1);
    const share = file.kept ? "" : ` ${percent(file.samples, this.#kernel.shown_samples)}`;
    const tab = element("button.file-tab", { type: "button", title: file.path }, name, element("span.soft", {}, share));
    tab.dataset.path = file.path;
    tab.addEventListener("click", () => {
      this.#letGo();
      this.#changed({ file: file.path, place: undefined });
      this.#open(file).catch((error) => this.#app.failed(error));
    });
    return tab;
  }

  #sassHead() {
    const kernel = this.#kernel;
    const count = kernel.instructions.length.toLocaleString("en-US");
    const text = kernel.disassembled ? `SASS, ${count} instructions` : "Instructions, not disassembled";
    return element("div.file-tabs", {}, element("span.pane-title", {}, text), this.#copied);
  }

  async #open(file) {
    const texts = file.text >= 0 ? await this.#app.data.ask("text", { number: file.text }) : [];
    this.#file = file;
    this.#lines = texts;
    this.#ofLine = new Map(file.lines.map((line) => [line.line, line]));
    this.#missing.hidden = file.text >= 0;
    this.#missing.textContent = MISSING[file.origin] ?? MISSING.missing;
    for (const tab of /** @type {Iterable<HTMLElement>} */ (this.#tabs.children)) tab.setAttribute("aria-pressed", String(tab.dataset.path === file.path));
    this.#hottest.source = hottest(file.lines);
    const count = texts.length || file.lines.length;
    this.source.show(count, texts.reduce((most, text) => Math.max(most, text.length), 40));
  }

  /** Shows the place that the address names, else the hottest line. */
  #first(state = {}) {
    const [path, number] = split(state.place ?? "");
    if (this.#file && path === this.#file.path && this.#ofLine.has(number)) {
      const row = this.#rowOfLine(number);
      this.#pin("source", row, true);
      this.source.reveal(row);
      return;
    }
    for (const side of ["source", "sass"]) {
      const [row] = this.#hottest[side];
      if (row === undefined) continue;
      const at = side === "source" ? this.#rowOfLine(this.#file.lines[row].line) : row;
      this[side].reveal(at);
    }
  }

  #row(side, number) {
    return side === "source" ? this.#sourceRow(number) : this.#sassRow(number);
  }

  #sourceRow(number) {
    const line = this.#lines.length ? this.#ofLine.get(number + 1) : this.#file.lines[number];
    const text = this.#lines.length ? this.#lines[number] : "(its text is not in the profile)";
    const name = this.#lines.length ? number + 1 : line.line;
    return this.#cells(line, String(name), text, this.#file.lines);
  }

  #sassRow(number) {
    const one = this.#kernel.instructions[number];
    return this.#cells(one, address(one), one.sass || "(not disassembled)", this.#kernel.instructions);
  }

  #cells(row, name, text, all) {
    const whole = this.#kernel.shown_samples;
    all.most ??= Math.max(1, ...all.map((one) => one.samples));
    const shown = row?.samples || row?.inclusive || 0;
    const share = element(row?.samples ? "span.share" : "span.share.inlined", {}, shown ? percent(shown, whole) : "");
    const bar = row ? stallBar(row, this.#kernel.reasons, all.most) : element("span.stalls");
    const cells = [element("span.line-name", {}, name), share, bar, element("code", {}, text.slice(0, 4000))];
    const words = row ? [stallWords(row, this.#kernel.reasons, whole), inlined(row, whole)].filter(Boolean).join("\n") : "";
    if (words) for (const cell of cells.slice(0, 3)) cell.title = words;
    return cells;
  }

  #rowOfLine(number) {
    return this.#lines.length ? number - 1 : this.#file.lines.findIndex((line) => line.line === number);
  }

  #lineAt(row) {
    return this.#lines.length ? this.#ofLine.get(row + 1) : this.#file.lines[row];
  }

  /** Lights the rows that belong to a row, on both sides; returns those of the other side, the hottest first. */
  #light(side, number) {
    const lit = { source: new Map(), sass: new Map() };
    lit[side].set(number, "lit");
    let others = [];
    if (side === "source") {
      others = [...(this.#lineAt(number)?.instructions ?? [])];
      for (const row of others) lit.sass.set(row, "lit");
      others.sort((one, other) => this.#kernel.instructions[other].samples - this.#kernel.instructions[one].samples || one - other);
    } else if (this.#file && !this.#file.kept) {
      for (const [depth, [file, line]] of this.#kernel.instructions[number].chain.entries()) {
        if (file !== this.#file.number || !line) continue;
        const row = this.#rowOfLine(line);
        if (!lit.source.has(row)) lit.source.set(row, depth === 0 ? "lit" : "lit around");
        others.push(row);
      }
    }
    this.source.light(lit.source);
    this.sass.light(lit.sass);
    return others;
  }

  #dark() {
    this.source.light(new Map());
    this.sass.light(new Map());
  }

  #pin(side, number, quiet = false) {
    if (this.#pinned?.side === side && this.#pinned.row === number && !quiet) {
      this.#letGo();
      return;
    }
    this.#pinned = { side, row: number };
    this.#side = side;
    const other = side === "source" ? "sass" : "source";
    const [first] = this.#light(side, number);
    this[side].cursor(number);
    this[other].cursor(-1);
    if (first !== undefined) this[other].reveal(first);
    const line = side === "source" && !quiet ? this.#lineAt(number) : undefined;
    if (line) this.#changed({ file: undefined, place: `${this.#file.path}:${line.line}` });
    this.#say(side, number);
  }

  #letGo() {
    this.#pinned = null;
    this.#dark();
    this.source.cursor(-1);
    this.sass.cursor(-1);
  }

  #say(side, number) {
    const row = side === "source" ? this.#lineAt(number) : this.#kernel.instructions[number];
    const where = side === "source" ? `line ${row?.line ?? number + 1}` : (row.sass || row.offset.toString(16));
    this.#app.say(row?.samples ? `${where}: ${stallWords(row, this.#kernel.reasons, this.#kernel.shown_samples)}` : where);
  }

  /** The next hottest row of the side that was used last. */
  #next(step) {
    const rows = this.#hottest[this.#side].length ? this.#hottest[this.#side] : this.#hottest[this.#side === "source" ? "sass" : "source"];
    const side = rows === this.#hottest.source ? "source" : "sass";
    if (!rows.length) return;
    const places = side === "source" ? rows.map((row) => this.#rowOfLine(this.#file.lines[row].line)) : rows;
    const now = this.#pinned?.side === side ? places.indexOf(this.#pinned.row) : -1;
    const at = now < 0 ? (step > 0 ? 0 : places.length - 1) : (now + step + places.length) % places.length;
    this.#pin(side, places[at], true);
    this[side].reveal(places[at]);
  }

  async #copy() {
    const kernel = this.#kernel;
    const lines = kernel.instructions.map((one) => [address(one), percent(one.samples, kernel.shown_samples), one.sass].join("\t"));
    const done = await copy([kernel.short, ...lines, ""].join("\n"));
    this.#copied.textContent = done ? "Copied" : "Not permitted";
    setTimeout(() => (this.#copied.textContent = "Copy"), 1200);
  }
}

const MISSING = {
  changed: "The text of this file is not shown: it has changed since the recording.",
  missing: "The text of this file is not in the profile: it was gone, or no longer what the kernel was compiled from.",
  profile: "The text of this file is too large for one HTML file: aiflame open shows it.",
};

/** Where an instruction lies in its function. */
function address({ offset }) {
  return offset.toString(16).padStart(4, "0");
}

/** Rows with samples, the hottest first. */
function hottest(rows) {
  const met = [...rows.keys()].filter((row) => rows[row].samples > 0);
  return met.sort((one, other) => rows[other].samples - rows[one].samples || one - other);
}

function inlined(row, whole) {
  return row.inclusive > row.samples ? `with the code inlined here: ${percent(row.inclusive, whole)}` : "";
}

function split(place) {
  const at = place.lastIndexOf(":");
  return [place.slice(0, at), Number(place.slice(at + 1))];
}
