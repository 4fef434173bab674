// Source files with the CPU time of each line: a list of files, the program's own first, and beside it the lines of one.

import { percent, shortLabel } from "../../../text.js";
import { element, wide } from "../ui/dom.js";
import { FilePage } from "./file_page.js";

const BLOCK = "source.";
const MOST_FUNCTIONS = 8; // of the chosen file, in the list

export const view = {
  name: "source",
  title: "Source",
  titled: ({ blocks }) => (blocks.includes("code") ? "CPU source" : "Source"),
  key: "5",
  keys: [
    ["n p", "the next hottest line, the one before"],
    ["↑ ↓", "a line further"],
    ["[ ]", "the file before, the next"],
    ["Esc", "let go of the line"],
  ],
  there: ({ blocks }) => blocks.some((name) => name.startsWith(BLOCK)),
  create: (app) => new Source(app),
};

class Source {
  #app;
  #clocks;
  #told = null; // files with their lines, of the chosen clock
  #state = {};
  #page;
  #filter = element("input", { type: "search", placeholder: "Filter files", "aria-label": "Filter the files", spellcheck: false });
  #metric = element("select", { "aria-label": "Time" });
  #names = element("div.kernel-names");
  #room = element("div.kernel-room");

  constructor(app) {
    this.#app = app;
    this.#clocks = app.blocks.filter((name) => name.startsWith(BLOCK)).map((name) => name.slice(BLOCK.length));
    this.#page = new FilePage(app, (change) => this.#change(change));
    this.#metric.hidden = this.#clocks.length < 2;
    this.body = element(
      "section.code.source", { "aria-label": "Source" },
      element("aside", {}, this.#metric, this.#filter, this.#names), this.#room,
    );
    this.#filter.addEventListener("input", () => this.#drawList());
    this.#metric.addEventListener("change", () => this.#app.go("source", { ...this.#state, metric: this.#metric.value }));
  }

  async show(state) {
    this.#state = state;
    const clock = this.#clocks.includes(state.metric) ? state.metric : this.#clocks[0];
    const told = this.#told?.metric === clock ? this.#told : await this.#app.data.ask("sources", { metric: clock });
    if (this.#state !== state) return; // another was asked for meanwhile
    this.#told = told;
    this.#offerMetrics(told);
    if (!told.files.length) {
      const none = "No sample of this program lies in code with a known source line: native code needs debug information (-g).";
      this.#room.replaceChildren(element("p.note", {}, none));
      return;
    }
    const file = this.#file();
    this.#drawList();
    if (!file) {
      const path = split(state.place ?? "")[0] || state.file;
      this.#room.replaceChildren(element("p.note", {}, "No line of ", element("code", {}, path), " took time of its own or in functions that it calls."));
      return;
    }
    if (this.#room.firstChild !== this.#page.body) this.#room.replaceChildren(this.#page.body);
    await this.#page.show(told, file, split(state.place ?? "")[1]);
  }

  key(event) {
    if (!this.#told) return false;
    if (event.key === "[" || event.key === "]") {
      const { files } = this.#told;
      const next = files[files.indexOf(this.#file()) + (event.key === "]" ? 1 : -1)];
      if (next) this.#app.go("source", this.#of({ file: next.path }));
      return true;
    }
    return this.#page.key(event);
  }

  #change(change) {
    this.#state = this.#of(change);
    this.#app.replace(this.#state);
  }

  #of(change) {
    return { metric: this.#clocks.length > 1 ? this.#told.metric : undefined, ...change };
  }

  /** The one that the address names, else the first with lines that took time themselves. */
  #file() {
    const { files } = this.#told;
    const wanted = split(this.#state.place ?? "")[0] || this.#state.file;
    if (wanted) return files.find((one) => one.path === wanted);
    const own = files.filter((one) => one.package === files[0].package);
    return own.reduce((most, one) => (one.self > most.self ? one : most), own[0]);
  }

  #offerMetrics(told) {
    const labels = this.#app.summary.summary.metrics;
    const options = this.#clocks.map((name) => element("option", { value: name }, shortLabel(labels.find((one) => one.name === name) ?? { label: name })));
    this.#metric.replaceChildren(...options);
    this.#metric.value = told.metric;
  }

  #drawList() {
    if (!this.#told) return; // show() does, once it is there
    const wanted = this.#filter.value.toLowerCase();
    const matching = this.#told.files.filter((one) => one.path.toLowerCase().includes(wanted) || one.package.toLowerCase().includes(wanted));
    const now = this.#file();
    const own = matching.filter((one) => !one.package);
    const others = matching.filter((one) => one.package && (one.self > 0 || wanted || one === now));
    this.#names.replaceChildren(
      ...(own.length ? [element("p.soft.fine", {}, "The program's own, with callees"), ...own.flatMap((one) => this.#rows(one, "total", now))] : []),
      ...(others.length ? [element("p.soft.fine", {}, "Packages, their own lines"), ...others.flatMap((one) => this.#rows(one, "self", now))] : []),
    );
    this.#names.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  /** A file; the chosen one with its hottest functions. */
  #rows(file, of, now) {
    const { total } = this.#told;
    const current = file === now;
    const name = file.path.slice(file.path.lastIndexOf("/") + 1);
    const row = this.#app.link(
      file[of] ? ".kernel-name" : ".kernel-name.cold", "source", this.#of({ file: file.path }),
      element("span.bar-name", {}, name, file.package ? element("span.soft", {}, ` ${file.package}`) : ""),
      element("span.bar-share", {}, percent(file[of], total)),
      element("span.bar-track", { "aria-hidden": "true" }, wide(element("span.bar-fill"), file[of] / Math.max(total, 1))),
    );
    row.title = `${file.path}\n${percent(file.self, total)} in its lines, ${percent(file.total, total)} with callees`.slice(0, 2000);
    if (current) row.setAttribute("aria-current", "true");
    return current ? [row, ...this.#functions(file)] : [row];
  }

  #functions(file) {
    const byName = new Map();
    for (const line of file.lines) {
      const one = byName.get(line.function) ?? { name: line.function, first: line.line, self: 0, hottest: line };
      one.self += line.self;
      if (line.self > one.hottest.self) one.hottest = line;
      byName.set(line.function, one);
    }
    const hot = [...byName.values()].filter((one) => one.self > 0).sort((one, other) => other.self - one.self || one.first - other.first);
    return hot.slice(0, MOST_FUNCTIONS).map((one) => {
      const place = `${file.path}:${one.hottest.line}`;
      const row = this.#app.link(
        ".source-function", "source", this.#of({ place }),
        element("span.bar-name", {}, one.name), element("span.bar-share", {}, percent(one.self, this.#told.total)),
      );
      row.title = `${one.name}: ${percent(one.self, this.#told.total)} in its own lines`;
      return row;
    });
  }
}

function split(place) {
  const at = place.lastIndexOf(":");
  return at > 0 ? [place.slice(0, at), Number(place.slice(at + 1))] : [place, 0];
}
