// The ranks of a parallel job: how each spent its time, which rank comes last to collectives and why, each step on each rank, the critical path of a
// step.

import { amount, percent } from "../../../text.js";
import { writeChoices } from "../../shared/frame_choices.js";
import { lowerBound } from "../../shared/sorted.js";
import { copy } from "../ui/copying.js";
import { element } from "../ui/dom.js";
import { button, Choice } from "../ui/elements.js";
import { RankMap } from "./map.js";
import { legend, parts, PathPicture } from "./path.js";
import { RankTable } from "./table.js";

const STATES = [
  ["compute", "compute"],
  ["exposed", "exposed communication"],
  ["copies", "copies alone"],
  ["idle", "idle"],
];
const TYPING_MS = 120;
const IN_SIGHT = 16; // of more ranks, those that others wait for come first
const BAR = { name: "bar", label: "What it did", kind: "parts", width: 200 };
const REST = { name: "rest", label: "", kind: "parts", width: 100 };

export const view = {
  name: "ranks",
  title: "Ranks",
  key: "7",
  keys: [
    ["/", "filter ranks and collectives"],
    ["↑ ↓", "choose a row, or a cell of the map"],
    ["Enter", "follow it"],
    ["s", "sort by the next column"],
    ["[ ]", "critical path of the step before, of the next"],
    ["m", "next quantity of the map"],
    ["c", "copy the table of ranks as CSV"],
  ],
  /** A profile with one rank has no such page. */
  there: (app) => app.blocks.includes("ranks"),
  create: (app) => new RanksView(app),
};

class RanksView {
  #app;
  #state = {};
  #about = null;
  #reading = null; // the question for it, while it is open
  #tables = [];
  #typing = 0;
  #maps = new Map();
  #filter = element("input.filter", { type: "search", placeholder: "Filter: rank 3, layers.2 …  /", "aria-label": "Filter", spellcheck: false });
  #findings = element("ol.findings");
  #quantity = new Choice("Show", (name) => this.#change({ show: name }));
  #step = element("input.rank-step", { type: "number", min: 0, "aria-label": "Step" });
  #pathTold = element("span.soft");
  #quick = element("span.rank-quick");
  #picture = new PathPicture();
  #map;
  #of = {}; // tables by their name

  constructor(app) {
    this.#app = app;
    this.#map = new RankMap({ chosen: (_, step) => this.#change({ step: String(step) }), say: (text) => app.say(text) });
    const table = (name, key, most, more = {}) => {
      this.#of[name] = new RankTable(app, { table: name, most, sorted: (sort) => this.#change({ [key]: sort }), ...more });
      return this.#of[name];
    };
    table("ranks", "sort", IN_SIGHT, {
      lead: ({ rank }) => ["flame", { by: "rank", focus: writeChoices([{ what: "name", text: rank }]) }],
      columns: (columns) => [{ ...columns[0], width: 84 }, BAR, ...columns.slice(1).filter((one) => one.filled), REST],
      cell: (column, row) => (column === REST ? this.#rest(row) : parts(row, STATES)),
    });
    table("stragglers", "sortStragglers", 10, { lead: ({ rank }) => ["flame", this.#against(rank)] });
    table("lates", "sortLates", 12, { lead: (row) => ["timeline", { clock: around(app.summary.started_ns + row.begin_ns, row.late) }] });
    table("phases", "sortPhases", 8);
    table("stretches", "sortPath", 10, { columns: (columns) => columns.filter((one) => one.name !== "step" && one.filled) });
    table("clocks", "sortClocks", 8);
    this.body = element("section.ranks", { "aria-label": "Ranks" });
    this.#filter.addEventListener("input", () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.#change({ filter: this.#filter.value }), TYPING_MS);
    });
    this.#step.addEventListener("change", () => this.#change({ step: this.#step.value }));
  }

  async show(state) {
    this.#state = state;
    if (!this.#app.blocks.includes("ranks")) {
      this.body.replaceChildren(element("p.note", {}, "This profile has one rank, or none: there is nothing to compare."));
      return;
    }
    if (!this.#about) {
      this.#reading ??= this.#read().finally(() => (this.#reading = null));
      await this.#reading;
    }
    if (document.activeElement !== this.#filter) this.#filter.value = state.filter ?? "";
    const row = this.#pathRow();
    const filter = state.filter ?? "";
    await Promise.all([
      this.#of.ranks.show(this.#tables, { sort: state.sort ?? (this.#about.ranks.length > IN_SIGHT ? "-lost" : ""), filter }),
      this.#of.stragglers.show(this.#tables, { sort: state.sortStragglers, filter }),
      this.#of.lates.show(this.#tables, { sort: state.sortLates, filter }),
      this.#of.phases.show(this.#tables, { sort: state.sortPhases }),
      this.#of.clocks.show(this.#tables, { sort: state.sortClocks }),
      this.#showMap(row),
      this.#showPath(row),
    ]);
    this.body.dataset.settled = JSON.stringify(state);
  }

  leave() {
    clearTimeout(this.#typing);
    delete this.body.dataset.settled;
  }

  key(event) {
    if (!this.#about) return false;
    const focused = Object.values(this.#of).find((one) => one.focused);
    if (event.key === "/") this.#filter.focus();
    else if (event.key === "c") this.#copied();
    else if (event.key === "[" || event.key === "]") this.#stepBy(event.key === "]" ? 1 : -1);
    else if (event.key === "m") this.#nextQuantity();
    else if (focused) return focused.key(event);
    else if (event.key === "s") return this.#of.ranks.key(event);
    else return this.#map.key(event);
    return true;
  }

  async #read() {
    const [about, tables] = await Promise.all([this.#app.data.ask("ranks.about"), this.#app.data.ask("tables", { block: "ranks" })]);
    this.#about = about;
    this.#tables = tables;
    const has = (name) => tables.some((one) => one.name === name);
    const cards = [
      this.#head(),
      this.#findings,
      this.#card("What each rank did", statesLegend(), this.#of.ranks.body, this.#of.ranks.told),
      has("stragglers") ? this.#card("Who the others wait for", says("by phase and layer, and why"), this.#of.stragglers.body) : null,
      about.map?.quantities.length ? this.#card("Each step on each rank", this.#quantity.body, this.#map.body) : null,
      about.paths.step.length ? this.#pathCard() : null,
      has("lates") ? this.#card("Who came last to a collective", says(this.#lateText()), this.#of.lates.body, this.#of.lates.told) : null,
      has("phases") ? this.#card("Phases of a step", says("medians of all ranks and steps"), this.#of.phases.body) : null,
      has("clocks") ? this.#card("Clocks", says("hosts but the first: what remains uncertain after they were put together"), this.#of.clocks.body) : null,
      ...about.notes.map((note) => element("p.soft.rank-note", {}, note)),
    ];
    this.#findings.replaceChildren(...about.findings.map(finding));
    this.#findings.hidden = about.findings.length === 0;
    this.body.replaceChildren(...cards.filter(Boolean));
  }

  #head() {
    const many = this.#about.ranks.length;
    const { rules, met } = this.#about;
    const by = rules.includes("devices") ? "" : rules.includes("calls") ? ", compute is time outside of traced calls" : ", compute is from CPU samples";
    const told = `${many.toLocaleString("en-US")} ranks, ${met.toLocaleString("en-US")} collectives that several were recorded in${by}`;
    const flame = this.#app.link(".button", "flame", { by: "rank" }, "Flame graph by rank");
    const csv = button("Copy CSV", () => this.#copied(), "Copy the table of ranks as CSV (c)");
    return element("div.rank-head", {}, element("h2", {}, told), this.#filter, csv, flame);
  }

  #card(title, beside, ...content) {
    return element("section.card.rank-card", { "aria-label": title }, element("div.head", {}, element("h2", {}, title), beside), ...content);
  }

  #pathCard() {
    for (const { name, step } of this.#about.telling) {
      this.#quick.append(button(name, () => this.#change({ step: String(step) }), `Step ${step}`));
    }
    const steps = element(
      "span.rank-steps", {},
      button("‹", () => this.#stepBy(-1), "The step before ([)"),
      element("label", {}, "Step ", this.#step),
      button("›", () => this.#stepBy(1), "The next step (])"),
      this.#quick,
    );
    const left = this.#about.left_out;
    const note = left ? element("p.soft.fine", {}, `The paths of ${left.toLocaleString("en-US")} more steps are left out.`) : null;
    const timeline = element("span.rank-links", {});
    this.timeline = timeline;
    const content = [this.#pathTold, this.#picture.body, this.#of.stretches.body, note].filter(Boolean);
    return this.#card("Critical path", element("span.rank-path-head", {}, steps, legend(), timeline), ...content);
  }

  #lateText() {
    const { late, met } = this.#about;
    const count = (value) => value.toLocaleString("en-US");
    return `some rank was late to ${count(late.all)} of ${count(met)}, to ${count(late.own)} by its own work`;
  }

  async #showMap(row) {
    const quantities = this.#about.map?.quantities ?? [];
    if (!quantities.length) return;
    const quantity = quantities.find((one) => one.name === this.#state.show) ?? quantities[0];
    this.#quantity.offer(quantities.map((one) => [one.name, one.label]), quantity.name);
    if (!this.#maps.has(quantity.name)) this.#maps.set(quantity.name, this.#app.data.ask("ranks.map", { name: quantity.name }));
    const values = await this.#maps.get(quantity.name);
    this.#map.show(this.#about, quantity, values, row < 0 ? -1 : this.#about.paths.step[row]);
  }

  async #showPath(row) {
    if (row < 0) return;
    const { step, begin, took, communication } = this.#about.paths;
    const path = { step: step[row], took: took[row], communication: communication[row] };
    if (document.activeElement !== this.#step) this.#step.value = String(path.step);
    const found = await this.#app.data.ask("ranks.path", { row });
    if (this.#pathRow() !== row) return;
    const [spoken, share] = [amount(path.communication, "ns"), percent(path.communication, path.took)];
    this.#pathTold.textContent =
      `Step ${path.step} takes ${amount(path.took, "ns")} from its first rank's beginning to its last one's end; ${spoken} of it (${share}) is communication that held it up. ` +
      "Making faster what is on the path makes the step shorter; anything else does not.";
    this.#picture.show(path, found);
    const [from, to] = [begin[row], begin[row] + path.took];
    this.timeline.replaceChildren(this.#app.link(".more", "timeline", { clock: `${from}-${to}` }, "Timeline"));
    await this.#of.stretches.show(this.#tables, { sort: this.#state.sortPath, column: "step", only: String(path.step) });
  }

  /** The row of the shown path: of the step in the address, or the next one with a path; else of the step with the longest wait. */
  #pathRow() {
    const { step } = this.#about.paths;
    if (!step.length) return -1;
    const wanted = Number(this.#state.step ?? this.#about.telling[0]?.step ?? step[0]);
    const at = lowerBound(step, Number.isFinite(wanted) ? wanted : 0);
    return Math.min(at, step.length - 1);
  }

  #stepBy(by) {
    const { step } = this.#about?.paths ?? { step: [] };
    if (!step.length) return;
    const at = Math.max(0, Math.min(step.length - 1, this.#pathRow() + by));
    this.#change({ step: String(step[at]) });
    this.#app.say(`Step ${step[at]}`);
  }

  #nextQuantity() {
    const names = this.#about?.map?.quantities.map((one) => one.name) ?? [];
    if (!names.length) return;
    const at = names.indexOf(this.#state.show ?? names[0]);
    const next = names[(at + 1) % names.length];
    this.#change({ show: next });
    this.#app.say(this.#about.map.quantities.find((one) => one.name === next).label);
  }

  /** A link to the flame graph of this rank against all others. */
  #rest({ rank }) {
    return this.#app.link(".rank-rest", "flame", this.#against(rank), "vs. the rest");
  }

  #against(rank) {
    const clock = this.#app.summary.summary.metrics.some((one) => one.name === "wall-time") && !this.#app.blocks.includes("facts.device");
    return { metric: clock ? "wall-time" : undefined, by: "code", ranks: rank.replace("rank ", ""), against: "rest" };
  }

  async #copied() {
    if (!this.#of.ranks.isShown) return;
    const done = await copy(await this.#of.ranks.csv());
    this.#app.say(done ? "Copied" : "Not permitted");
  }

  #change(change) {
    clearTimeout(this.#typing);
    const state = { ...this.#state, ...change };
    this.#app.replace(state);
    this.show(state).catch((error) => this.#app.failed(error));
  }
}

function finding({ sentence, share }) {
  const number = element("span.number", { "aria-hidden": "true" }, share >= 0.01 ? `${Math.round(share * 100)}%` : percent(share, 1));
  return element("li.card.finding", {}, number, element("p", {}, sentence));
}

function says(text) {
  return element("span.soft", {}, text);
}

function statesLegend() {
  const names = { compute: "busy", exposed: "communication" };
  return element("ul.legend", {}, ...STATES.map(([name, word]) => element("li", {}, element(`i.swatch.${names[name] ?? name}`), word)));
}

/** A stretch of time with some time before and after it. */
function around(moment, length) {
  const room = Math.max(length * 2, 1_000_000);
  return `${Math.max(0, Math.round(moment - room))}-${Math.round(moment + room / 2)}`;
}
