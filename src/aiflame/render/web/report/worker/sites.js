// A block of facts, read once: forests of frames, sites that name a node in each, leaves with their values. And how a tree grows from them.

import { KIND } from "../../kinds.js";
import { Growth, longer } from "./growth.js";
import { NEVER } from "./nodes.js";
import { stepParts } from "./site_shares.js";

const LINES = new Set([KIND.GPU_LINE, KIND.CPU_LINE]);
const INSTRUCTIONS = new Set([KIND.GPU_INSTRUCTION, KIND.GPU_STALL, KIND.GPU_OFFSET, KIND.CPU_INSTRUCTION]);
const LIMITS = ["limits-counted", "limits-limit", "limits-by_memory"];
const MOST_EXPECTED = 1 << 22; // nodes to make room for beforehand

/** The contents of a block of facts. `frames` are its own and those that views add: the root's, `[no layer]` …, steps. */
export class SiteTable {
  constructor({ head, columns }) {
    this.head = head;
    this.columns = columns;
    const names = columns["frame.name"].slice();
    const extra = new Extra(columns, names);
    names[0] = "all";
    this.none = Object.fromEntries([...head.segments, "step"].map((name) => [name, extra.add(`[no ${name}]`, KIND.UNATTRIBUTED)]));
    this.steps = Array.from(columns["step.number"] ?? [], (number) => extra.add(`Step.${number}`, KIND.STEP));
    const packages = columns.package ?? [""];
    const folded = packages.map((name, row) => (name ? extra.add(`[${name}]`, columns["frame.kind"][columns["frame.package"].indexOf(row)]) : 0));
    const kind = extra.numbers("frame.kind", extra.kinds);
    kind[0] = KIND.ROOT;
    /** @type {import("../../flame/model.js").Frames} */
    this.frames = {
      name: names,
      full: extra.texts("frame.full"),
      kind,
      file: extra.numbers("frame.file"),
      module: extra.numbers("frame.module"),
      line: extra.numbers("frame.line"),
      fold: extra.numbers(Array.from(columns["frame.package"] ?? [], (row) => folded[row])),
      files: columns.file,
      modules: columns.module,
    };
    this.kinds = { [KIND.UNATTRIBUTED]: "unattributed", [KIND.STEP]: "step", ...head.kinds };
    this.contexts = new Set([...head.contexts, "step"]);
    this.forests = {};
    let first = 0;
    for (const name of [...head.segments, "inside"]) {
      const parent = columns[`${name}.parent`];
      this.forests[name] = { parent, frame: columns[`${name}.frame`], first };
      first += parent.length;
    }
    this.nodes = first; // of all forests
    this.groupings = head.groupings;
    this.sites = columns["site.first"].length;
    this.group = columns["site.group"] ?? Int32Array.from({ length: this.sites }, (_, site) => site);
  }
}

/** Frames behind those of the block. */
class Extra {
  kinds = [];
  #columns;
  #names;

  constructor(columns, names) {
    this.#columns = columns;
    this.#names = names;
  }

  add(name, kind) {
    this.kinds.push(kind);
    return this.#names.push(name) - 1;
  }

  /** A column (its name, or its values), with the `added` ones behind it. */
  numbers(given, added = []) {
    const values = typeof given === "string" ? this.#columns[given] : given;
    const column = new Int32Array(this.#names.length);
    column.set(values);
    column.set(added, values.length);
    return column;
  }

  texts(name) {
    return this.#columns[name].concat(new Array(this.kinds.length).fill(""));
  }
}

/** Frames that take no place: hidden ones, and those deeper than the chosen detail. */
export function hiddenFrames(kinds, { detail, inverted }, hide) {
  const hidden = new Uint8Array(kinds.length);
  for (let frame = 1; frame < kinds.length; frame++) {
    const kind = kinds[frame];
    const deeper = INSTRUCTIONS.has(kind) ? detail !== "instruction" : LINES.has(kind) && detail === "function";
    // Inverted, a GPU's samples begin with their stall reasons: an offset says nothing without its kernel.
    hidden[frame] = deeper || (inverted && kind === KIND.GPU_OFFSET) || hide?.[frame] ? 1 : 0;
  }
  return hidden;
}

/**
 * `wanted`: the segments, the metric, hidden frames, the chosen part of it (as `chosenParts`, or null), and whether idle time counts. The tree of
 * one metric, with the columns [values, launches]; with another to compare it with ({facts, chosen, frameOf: where its frames are those of another
 * profile}) [values, launches, its values]. `wanted.limits`: with nothing to compare it with, also [… kernels' time with a known limit, that at
 * the limit, the part of it that memory limits].
 */
export function tree(facts, other, wanted) {
  const growth = new Growth(Math.min(facts.nodes + facts.sites, MOST_EXPECTED), Math.min(facts.sites, MOST_EXPECTED));
  const columns = [new Sums(), new Sums(), new Sums()];
  const first = new Sums(Int32Array, NEVER);
  const limits = wanted.limits && !other ? LIMITS.map((name) => ({ of: facts.columns[`leaf.${name}`], sums: new Sums() })) : [];
  grow(growth, facts, { ...wanted, shared: Boolean(other) }, columns[0], columns[1], first, limits);
  if (other) grow(growth, other.facts, { ...wanted, chosen: other.chosen, frameOf: other.frameOf, shared: true }, columns[2], null, first);
  const made = growth.nodes();
  const there = [...columns.slice(0, other ? 3 : 2), ...limits.map(({ sums }) => sums)];
  return { ...made, columns: there.map((one) => one.upTo(made.count)), first: first.upTo(made.count), limits: limits.length > 0 };
}

/** Puts each site that has values on its segments, and its leaves on it. */
function grow(growth, facts, wanted, values, launches, first, beside = []) {
  const { columns, sites } = facts;
  const value = columns[`leaf.${wanted.metric}`];
  if (!value) return;
  const leafSite = columns["leaf.site"];
  const used = new Uint8Array(sites);
  for (let leaf = 0; leaf < leafSite.length; leaf++) if (value[leaf] > 0) used[leafSite[leaf]] = 1;
  if (!wanted.idle) {
    for (const [site, idle] of idleSites(facts).entries()) if (idle) used[site] = 0;
  }
  const kept = partsToSites(facts, wanted.chosen, used);
  const { site, step, part, starts } = copies(facts, wanted, used);
  const place = placed(growth, facts, wanted, site, step);

  const inside = forest(facts, "inside", wanted);
  const leafInside = columns["leaf.inside"];
  const leafLaunches = launches && columns["leaf.launches"];
  const siteFirst = columns["site.first"];
  let owed = 0; // the remainder of rounding: parts of whole numbers stay whole, and their sum is right
  let owedLaunches = 0;
  for (let leaf = 0; leaf < leafSite.length; leaf++) {
    const its = leafSite[leaf];
    // Launches of a kernel whose time is divided inside of it lie on the kernel itself, which has no time of its own then.
    if (!used[its] || !(value[leaf] > 0 || leafLaunches?.[leaf] > 0)) continue;
    for (let copy = starts[its]; copy < starts[its + 1]; copy++) {
      const node = growth.put(place[copy], inside, leafInside[leaf], wanted.hidden);
      const share = part[copy] * kept[its];
      for (const { of, sums } of beside) sums.add(node, of[leaf] * share);
      if (share === 1) {
        values.add(node, value[leaf]);
        if (leafLaunches) launches.add(node, leafLaunches[leaf]);
      } else {
        owed += value[leaf] * share;
        values.add(node, Math.round(owed));
        owed -= Math.round(owed);
        if (leafLaunches) {
          owedLaunches += leafLaunches[leaf] * share;
          launches.add(node, Math.round(owedLaunches));
          owedLaunches -= Math.round(owedLaunches);
        }
      }
      first.least(node, siteFirst[its]);
    }
  }
}

function forest(facts, segment, { frameOf, hidden, shared }) {
  const found = facts.forests[segment];
  if (!found) return null;
  if (!frameOf) return { ...found, alone: !shared && !found.frame.some((row) => hidden[row]) };
  // Another profile's forests: their nodes are not those of the first, and their frames have other numbers.
  return { parent: found.parent, frame: found.frame.map((row) => frameOf[row]), first: found.first + 2 ** 29, alone: false };
}

/** The part of a metric in which devices had nothing to do. */
export function idleShare(facts, metric) {
  const value = facts.columns[`leaf.${metric}`] ?? [];
  const site = facts.columns["leaf.site"];
  const idle = idleSites(facts);
  const sums = [0, 0];
  for (let leaf = 0; leaf < value.length; leaf++) sums[idle[site[leaf]]] += value[leaf];
  return sums[1] / Math.max(sums[0] + sums[1], 1);
}

function idleSites(facts) {
  const { kind } = facts.frames;
  const idle = new Uint8Array(facts.sites);
  for (const segment of facts.head.segments) {
    const { frame } = facts.forests[segment];
    if (!frame.some((row) => kind[row] === KIND.GPU_IDLE)) continue;
    const node = facts.columns[`site.${segment}`];
    for (let site = 0; site < facts.sites; site++) if (kind[frame[node[site]]] === KIND.GPU_IDLE) idle[site] = 1;
  }
  return idle;
}

function partsToSites(facts, chosen, used) {
  const kept = new Float64Array(facts.sites).fill(1);
  if (!chosen) return kept;
  for (let site = 0; site < facts.sites; site++) {
    kept[site] = chosen.parts[facts.group[site]];
    if (!(kept[site] > 0)) used[site] = 0;
  }
  return kept;
}

/** A used site once, or once for each step where steps are part of the grouping. `starts` says where each site's copies begin. */
function copies(facts, wanted, used) {
  const starts = new Int32Array(facts.sites + 1);
  if (!wanted.segments.includes("step") || facts.forests.step) {
    for (let site = 0; site < facts.sites; site++) starts[site + 1] = starts[site] + used[site];
    const site = new Int32Array(starts[facts.sites]);
    for (let at = 0; at < facts.sites; at++) if (used[at]) site[starts[at]] = at;
    return { site, step: null, part: new Float64Array(site.length).fill(1), starts };
  }
  const { of, row, part: stepPart } = stepParts(facts, wanted.metric, wanted.chosen?.steps ?? null);
  let site = new Int32Array(1024);
  let step = new Int32Array(1024);
  let part = new Float64Array(1024);
  let count = 0;
  for (let at = 0; at < facts.sites; at++) {
    starts[at] = count;
    if (!used[at]) continue;
    const group = facts.group[at];
    for (let entry = of[group]; entry < of[group + 1]; entry++) {
      if (count === site.length) [site, step, part] = [longer(site), longer(step), longer(part)];
      site[count] = at;
      step[count] = row[entry];
      part[count++] = stepPart[entry];
    }
  }
  starts[facts.sites] = count;
  return { site: site.subarray(0, count), step: step.subarray(0, count), part: part.subarray(0, count), starts };
}

/** Where each site's path through the segments ends. */
function placed(growth, facts, wanted, site, step) {
  const place = new Int32Array(site.length);
  for (const segment of wanted.segments) {
    const byStep = segment === "step" && step !== null;
    const on = byStep ? null : forest(facts, segment, wanted);
    if (!byStep && !on) continue;
    const column = byStep ? null : facts.columns[`site.${segment}`];
    const nodeOf = byStep ? (at) => step[at] + 1 : (at) => column[site[at]];
    // Sites without a value get a frame for that only where siblings have one.
    const shared = facts.contexts.has(segment) ? new Uint8Array(growth.size) : null;
    if (shared) for (let at = 0; at < site.length; at++) if (nodeOf(at) > 0) shared[place[at]] = 1;
    const frameOf = wanted.frameOf ?? null;
    for (let at = 0; at < site.length; at++) {
      const node = nodeOf(at);
      if (node > 0) {
        if (!byStep) place[at] = growth.put(place[at], on, node, wanted.hidden);
        else place[at] = own(growth, place[at], facts.steps[node - 1], frameOf, wanted.hidden);
      } else if (shared?.[place[at]]) {
        place[at] = own(growth, place[at], facts.none[segment], frameOf, wanted.hidden);
      }
    }
  }
  return place;
}

function own(growth, place, row, frameOf, hidden) {
  const frame = frameOf ? frameOf[row] : row;
  return hidden[frame] ? place : growth.child(place, frame);
}

/** A column of a tree that grows. */
class Sums {
  /** @param {Float64ArrayConstructor | Int32ArrayConstructor} type */
  constructor(type = Float64Array, none = 0) {
    this.none = none;
    this.array = new type(1 << 16).fill(none);
  }

  add(node, value) {
    this.#reach(node);
    this.array[node] += value;
  }

  least(node, value) {
    this.#reach(node);
    if (value < this.array[node]) this.array[node] = value;
  }

  upTo(count) {
    this.#reach(count - 1);
    return this.array.subarray(0, count);
  }

  #reach(node) {
    while (node >= this.array.length) {
      const before = this.array.length;
      this.array = longer(this.array);
      if (this.none !== 0) this.array.fill(this.none, before);
    }
  }
}
