// The worker's answers for the flame graph: `domain` (contents of its facts), `frames` (all of them, once), `flame` (a tree, laid out).

import { arrange } from "../../flame/arrange.js";
import { KIND } from "../../kinds.js";
import { marked, readChoices } from "../shared/frame_choices.js";
import { alignedFrames, unnumbered } from "./baseline.js";
import { callees, callers, focus, invert, merge, mergeRecursion, ownCode } from "./nodes.js";
import { chosenParts, restParts } from "./site_shares.js";
import { SiteTable, hiddenFrames, idleShare, tree } from "./sites.js";

const LAST = new Set([KIND.GPU_IDLE, KIND.UNATTRIBUTED]); // among siblings by name

const GPU_TIME = "gpu-time";
const OF_KERNELS = [GPU_TIME, "could-win"]; // metrics of kernels as wholes, in ns

const MOST_IDLE = 0.5; // where a device was idle for a larger share, idle time would fill the picture: it is left out unless chosen

const opened = new Map(); // domain → facts, and those with a base
let grown = { key: "", tree: null }; // the latest tree before transforms: another order or focus needs no growth

export const FLAME_CALLS = {
  async domain(blocks, { domain }) {
    const { facts } = await open(blocks, domain, false);
    const { metrics, bins, notes, slots } = facts.head;
    const named = facts.groupings.map(({ name, label }) => ({ name, label }));
    const limits = metrics.map(({ name }) => name).filter((name) => hasLimits(facts, name));
    return { metrics, groupings: named, kinds: facts.kinds, bins, slots, notes: notes ?? [], steps: facts.steps.length, limits };
  },

  async frames(blocks, { domain, base }) {
    return (await open(blocks, domain, base)).frames;
  },

  async flame(blocks, given) {
    const from = await open(blocks, given.domain, given.base);
    const metric = from.facts.head.metrics.find((one) => one.name === given.metric) ?? from.facts.head.metrics[0];
    const wholeRun = Boolean(from.facts.head.whole_run);
    const scope = wholeRun ? "run" : given.scope;
    const steady = scope === "steps";
    const idle = steady ? 0 : idleShare(from.facts, metric.name); // steady steps are shown without idle time
    const shown = given.idle ? given.idle === "1" : idle < MOST_IDLE;
    const asked = { ...given, scope, metric: metric.name, detail: given.detail || usualDetail(metric), idle: shown };
    const raw = growOnce(from, asked);
    const changed = transform(raw, from, asked);
    const how = { order: asked.order, widths: !raw.limits && raw.columns.length > 2 && asked.widths === "base" ? 2 : 0, rank: ranks(from) };
    /** @type {Record<string, any>} */
    const laid = changed.above ? joined(arrange(changed.below, how), arrange(changed.above, how)) : arrange(changed.below, how);
    const { placed: _, ...arrays } = raw.limits ? apart(laid) : laid; // the page needs no old numbers
    const cut = Boolean(changed.above?.cut ?? changed.below.cut);
    const divided = Boolean(given.range || given.steps || steady);
    const limits = raw.limits ? { ...arrays.limits, ofTime: metric.name === GPU_TIME } : null;
    const told = { metric, limits, detail: asked.detail, idle: { share: idle, shown }, whole: whole(raw), wholeRun, cut, divided, scaled: raw.scaled };
    return { answer: { ...arrays, ...told }, transfer: buffers(arrays) };
  },
};

/** Whether the frames of a metric may be coloured by the limits of their kernels. */
function hasLimits({ columns }, metric) {
  return OF_KERNELS.includes(metric) && columns["leaf.limits-counted"] !== undefined;
}

/** A layout with the columns of limits apart from those of the metric. */
function apart(laid) {
  const [counted, limit, memory] = laid.total.slice(2);
  return { ...laid, own: laid.own.slice(0, 2), total: laid.total.slice(0, 2), limits: { counted, limit, memory } };
}

/** Samples show the frames inside a kernel: as attribute/trees/build.py. */
function usualDetail({ unit }) {
  return unit === "samples" ? "instruction" : "function";
}

async function open(blocks, domain, withBase) {
  const key = `${domain} ${withBase ? "base" : ""}`;
  if (!opened.has(key)) opened.set(key, read(blocks, domain, withBase));
  return opened.get(key);
}

async function read(blocks, domain, withBase) {
  if (!withBase) {
    const facts = new SiteTable(await blocks.get(`facts.${domain}`));
    return { key: domain, facts, base: null, frames: facts.frames, labels: facts.kinds };
  }
  const { facts } = await open(blocks, domain, false);
  const other = new SiteTable(await blocks.get(`base.${domain}`));
  const { frames, rowOf } = alignedFrames(facts.frames, other.frames);
  return { key: `${domain} base`, facts, base: { facts: other, frameOf: rowOf }, frames, labels: { ...other.kinds, ...facts.kinds } };
}

function growOnce(from, asked) {
  const { metric, by, range, steps, scope, ranks: ofRanks, against, scale, idle, detail, inverted, hide, color } = asked;
  const key = JSON.stringify([from.key, metric, by, range, steps, scope, ofRanks, against, scale, idle, detail, Boolean(inverted), hide, color]);
  if (grown.key === key) return grown.tree;
  const { facts, base, frames, labels } = from;
  const grouping = facts.groupings.find((one) => one.name === by) ?? facts.groupings[0];
  const hidden = hiddenFrames(frames.kind, { detail, inverted }, marked(frames, labels, readChoices(hide)));
  const chosen = chosenParts(facts, metric, asked);
  const rest = against && chosen ? { facts, chosen: restParts(facts, metric, asked) } : null;
  // Ranks side by side: their frames must compare equal.
  const alike = rest && ofRanks ? unnumbered(frames) : null;
  if (alike) rest.frameOf = alike;
  const segments = alike ? grouping.segments.filter((name) => name !== "process" && name !== "rank") : grouping.segments;
  const made = tree(facts, rest ?? (base && { ...base, chosen: chosenParts(base.facts, metric, { scope, range: null, steps: null, ranks: null }) }), { segments, metric, hidden, chosen, idle, limits: color === "limit" && !base && hasLimits(facts, metric), ...(alike ? { frameOf: alike } : {}) });
  const perLength = rest && rest.chosen.length > 0 ? chosen.length / rest.chosen.length : 1;
  const usual = rest || !base ? perLength : perPeriod(facts, base.facts, metric);
  grown = { key, tree: scaled(made, scale === "total" ? null : usual) };
  return grown.tree;
}

/** Twice the period of sampling gives half the samples: the number of samples of `facts` that equal one of the baseline. */
function perPeriod(facts, base, metric) {
  const { unit } = facts.head.metrics.find((one) => one.name === metric);
  return unit === "samples" ? 2 ** ((base.head.period_log2 ?? 0) - (facts.head.period_log2 ?? 0)) : 1;
}

/** Multiplies the tree's baseline by `factor`; null: so that both have the same sum. Parts of units are kept. */
function scaled(made, factor) {
  const [now, , before] = made.columns;
  if (!before || made.limits) return { ...made, scaled: 1 };
  const [sum, base] = [total(now), total(before)];
  const times = factor ?? (sum > 0 && base > 0 ? sum / base : 1);
  const columns = times === 1 ? made.columns : [now, made.columns[1], before.map((value) => value * times)];
  return { ...made, columns, scaled: times };
}

/** Applies a person's focus, merges and inversion: {below, above}, `above` for a sandwich's callers alone. */
function transform(raw, { frames, labels }, { focus: through, mine, recursion, merge: merged, inverted, sandwich }) {
  const mark = (choices) => marked(frames, labels, choices);
  let found = raw;
  for (const choice of readChoices(through)) found = focus(found, mark([choice]));
  if (mine) found = ownCode(found, frames.fold);
  if (recursion) found = mergeRecursion(found, frames.kind);
  if (sandwich) {
    const middle = mark(readChoices(sandwich));
    return { below: callees(found, middle), above: callers(found, middle) };
  }
  if (merged) found = merge(found, mark(readChoices(merged)));
  return { below: inverted ? invert(found) : found, above: null };
}

/** Values of all, before anything was focused on. */
function whole({ columns }) {
  return columns.map(total);
}

function total(values) {
  return values.reduce((sum, value) => sum + value, 0);
}

/** Each frame's place in the order of names: numbers in names count as numbers. */
function ranks(from) {
  if (from.ranks) return from.ranks;
  const { name, kind } = from.frames;
  const keys = name.map((text, row) => (LAST.has(kind[row]) ? "\uffff" : "") + padded(text));
  const compare = (one, other) => (keys[one] < keys[other] ? -1 : keys[one] > keys[other] ? 1 : one - other);
  const order = Int32Array.from(keys.keys()).sort(compare);
  from.ranks = new Int32Array(order.length);
  for (let at = 0; at < order.length; at++) from.ranks[order[at]] = at;
  return from.ranks;
}

function padded(text) {
  return /\d/.test(text) ? text.replace(/\d+/g, (digits) => digits.padStart(12, "0")) : text;
}

/** A sandwich: the callees of the middle with depths from 0, its callers with depths below 0. */
function joined(below, above) {
  const count = below.count + above.count - 1;
  const move = (node) => (node === 0 ? 0 : below.count + node - 1);
  const glue = (one, other) => {
    const both = new one.constructor(count);
    both.set(one);
    both.set(other.subarray(1), one.length);
    return both;
  };
  const depth = glue(Int32Array.from(below.depth), Int32Array.from(above.depth, (one) => -one));
  const parent = glue(below.parent, above.parent.map(move));
  const after = glue(below.after, above.after.map((node) => below.count + node - 1));
  after[0] = count;
  const levels = above.starts.length - 2; // of callers
  const rows = new Int32Array(count);
  const starts = new Int32Array(levels + below.starts.length);
  let at = 0;
  for (let level = levels; level >= 1; level--) {
    starts[levels - level] = at;
    for (let row = above.starts[level]; row < above.starts[level + 1]; row++) rows[at++] = move(above.rows[row]);
  }
  rows.set(below.rows, at);
  below.starts.forEach((start, level) => (starts[levels + level] = at + start));
  const own = below.own.map((one, column) => glue(one, above.own[column]));
  const total = below.total.map((one, column) => glue(one, above.total[column]));
  const frame = glue(below.frame, above.frame);
  const left = glue(below.left, above.left);
  return { count, depth, parent, after, rows, starts, own, total, frame, left, upper: below.count };
}

function buffers(arrays) {
  return Object.values(arrays).flatMap((one) => (Array.isArray(one) ? one : [one])).filter(ArrayBuffer.isView).map((one) => one.buffer);
}
