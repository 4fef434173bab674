// One source file: each line with its own time, and that with its callees.

import { amount, percent } from "../../../text.js";
import { exactly } from "../../shared/frame_choices.js";
import { element, wide } from "../ui/dom.js";
import { Listing } from "../ui/listing.js";

const MISSING = {
  missing: "The text of this file is not in the profile: it was gone, had changed since, or was recorded elsewhere. Open with --source-path.",
  profile: "The text of this file is too large for one HTML file: aiflame open shows it.",
};

export class FilePage {
  #app;
  #changed;
  #told = null;
  #file = null;
  #lines = []; // its text
  #met = new Map(); // number of a line → the line, of those that took time
  #most = 1;
  #pinned = -1;
  #head = element("div.kernel-head");
  #missing = element("p.soft.fine.missing", { hidden: true });
  #chosen = element("p.source-chosen", {});

  constructor(app, changed) {
    this.#app = app;
    this.#changed = changed;
    this.listing = new Listing("Source", {
      row: (number) => this.#row(number),
      enter: () => {},
      leave: () => {},
      choose: (number) => this.#pin(number),
    });
    const columns = element(
      "div.source-columns", { "aria-hidden": "true" },
      element("span.line-name", {}, "line"), element("span.share", {}, "self"), element("span.timed", {}), element("span.share", {}, "total"),
    );
    columns.title = "self: the time of the line's own code; total: with the functions that it calls";
    this.body = element("div.kernel", {}, this.#head, this.#missing, columns, this.listing.body, this.#chosen);
  }

  /** `line`: 0 for the hottest. */
  async show(told, file, line) {
    if (this.#told !== told || this.#file !== file) await this.#open(told, file);
    const hottest = this.#hottest()[0]?.line ?? 0;
    if (line) this.#choose(line);
    else {
      this.#let();
      this.listing.reveal(this.#rowOf(hottest));
    }
  }

  key(event) {
    if (!this.#file) return false;
    if (event.key === "n" || event.key === "p") this.#next(event.key === "n" ? 1 : -1);
    else if (event.key === "Escape") {
      this.#let();
      this.#changed({ file: this.#file.path });
    } else return false;
    return true;
  }

  async #open(told, file) {
    const lines = file.text >= 0 ? await this.#app.data.ask("text", { number: file.text }) : [];
    this.#told = told;
    this.#file = file;
    this.#lines = lines;
    this.#met = new Map(file.lines.map((one) => [one.line, one]));
    this.#most = file.lines.reduce((most, one) => Math.max(most, one.total), 1);
    const { total, unit, label } = told;
    const part = (value) => `${amount(value, unit)} (${percent(value, total)})`;
    this.#head.replaceChildren(
      element("h2.kernel-title", {}, file.path.slice(file.path.lastIndexOf("/") + 1)),
      element("p.full-name", { title: file.path }, file.path),
      element("p.soft.fine.source-times", {}, `${label}: ${part(file.self)} in its lines, ${part(file.total)} with callees`),
    );
    this.#missing.hidden = file.text >= 0;
    this.#missing.textContent = MISSING[file.origin] ?? MISSING.missing;
    this.listing.show(lines.length || file.lines.length, lines.reduce((most, text) => Math.max(most, text.length), 40));
  }

  #row(number) {
    const line = this.#lines.length ? this.#met.get(number + 1) : this.#file.lines[number];
    const text = this.#lines.length ? this.#lines[number] : "(its text is not in the profile)";
    const name = this.#lines.length ? number + 1 : line.line;
    const { total } = this.#told;
    const bar = element("span.timed", {});
    if (line) bar.append(wide(element("i.timed-total"), line.total / this.#most), wide(element("i.timed-self"), line.self / this.#most));
    const cells = [
      element("span.line-name", {}, String(name)),
      element("span.share", {}, line?.self ? percent(line.self, total) : ""),
      bar,
      element("span.share.inlined", {}, line?.total ? percent(line.total, total) : ""),
      element("code", {}, text.slice(0, 4000)),
    ];
    if (line) for (const cell of cells.slice(0, 4)) cell.title = this.#words(line);
    return cells;
  }

  #words(line) {
    const { total, unit } = this.#told;
    const inside = line.function ? ` in ${line.function}` : "";
    const [own, all] = [line.self, line.total].map((value) => `${amount(value, unit)} (${percent(value, total)})`);
    return `line ${line.line}${inside}: ${own} itself, ${all} with callees`;
  }

  #rowOf(line) {
    return this.#lines.length ? line - 1 : this.#file.lines.findIndex((one) => one.line === line);
  }

  #pin(row) {
    const line = this.#lines.length ? row + 1 : this.#file.lines[row].line;
    if (line === this.#pinned) {
      this.#let();
      this.#changed({ file: this.#file.path });
      return;
    }
    this.#choose(line, false);
    this.#changed({ place: `${this.#file.path}:${line}` });
  }

  #choose(line, reveal = true) {
    const row = this.#rowOf(line);
    if (row < 0) return;
    this.#pinned = line;
    this.listing.cursor(row);
    this.listing.light(new Map([[row, "lit"]]));
    if (reveal) this.listing.reveal(row);
    const met = this.#met.get(line);
    const words = met ? this.#words(met) : `line ${line}: no sample`;
    const flame = met?.function ? this.#app.link(".more", "flame", { metric: this.#told.metric, by: "code", search: exactly(met.function) }, "in the flame graph") : "";
    this.#chosen.replaceChildren(element("span", {}, words), flame);
    this.#chosen.hidden = false;
    this.#app.say(words);
  }

  #let() {
    this.#pinned = -1;
    this.#chosen.hidden = true;
    this.listing.cursor(-1);
    this.listing.light(new Map());
  }

  /** Lines, the hottest first: by their own time, then with callees. */
  #hottest() {
    return [...this.#file.lines].sort((one, other) => other.self - one.self || other.total - one.total || one.line - other.line);
  }

  #next(step) {
    const lines = this.#hottest().map((one) => one.line);
    const now = lines.indexOf(this.#pinned);
    const at = now < 0 ? (step > 0 ? 0 : lines.length - 1) : (now + step + lines.length) % lines.length;
    this.#choose(lines[at]);
    this.#changed({ place: `${this.#file.path}:${lines[at]}` });
  }
}
