// The times of work: the moments and slots of a block of facts.

import { KIND } from "../../kinds.js";
import { lowerBound } from "../shared/sorted.js";

const PATHS = new Set(["layer"]); // segments whose nodes are named by their whole way

export class Moments {
  #names = new Map(); // segment → key of each node → text
  #slotOrder = null;

  constructor(domain, { head, columns }) {
    this.domain = domain;
    this.head = head;
    this.columns = columns;
    this.#groupSites();
  }

  about() {
    const { head, columns } = this;
    const metrics = head.metrics.filter(({ name }) => columns[`moment.${name}`] || columns[`slot.${name}`]);
    return {
      domain: this.domain,
      metrics: metrics.map((one) => ({ ...one, moments: Boolean(columns[`moment.${one.name}`]), slots: Boolean(columns[`slot.${one.name}`]) })),
      bins: head.bins ?? null,
      slots: head.slots ?? 100,
      window_ns: head.window_ns ?? 0,
      steps: Array.from(columns["step.number"] ?? [], (number, row) => ({
        number,
        process: columns["step.process"][row],
        name: this.#nameOf("process", columns["step.process"][row]),
        begin: columns["step.begin"][row],
        end: columns["step.end"][row],
      })),
    };
  }

  bins(metric) {
    const found = new Float64Array(this.head.bins?.count ?? 0);
    const values = this.columns[`moment.${metric}`] ?? [];
    const { "moment.bin": bin, "moment.group": group } = this.columns;
    for (let at = 0; at < values.length; at++) if (!this.idle[group[at]]) found[bin[at]] += values[at];
    return { answer: found, transfer: [found.buffer] };
  }

  slots(metric) {
    const many = this.head.slots ?? 100;
    const { "step.number": steps = [], "slot.step": step, "slot.slot": slot, "slot.group": group } = this.columns;
    const found = new Float64Array(steps.length * many);
    const values = this.columns[`slot.${metric}`] ?? [];
    for (let at = 0; at < values.length; at++) {
      if (!this.idle[group[at]]) found[step[at] * many + slot[at]] += values[at];
    }
    return { answer: found, transfer: [found.buffer] };
  }

  part({ metric, range, steps, slots, most }) {
    const of = new Float64Array(this.groups);
    if (steps) this.#addSlots(of, metric, steps, slots ?? [0, Infinity]);
    else this.#addBins(of, metric, range);
    let total = 0;
    for (let group = 0; group < of.length; group++) total += of[group] = this.idle[group] ? 0 : of[group];
    const lists = {};
    for (const segment of ["kernel", "function", "layer", "phase"]) lists[segment] = this.#top(of, segment, most);
    return { total, lists };
  }

  #addBins(of, metric, [from, to]) {
    const values = this.columns[`moment.${metric}`] ?? [];
    const { "moment.bin": bin, "moment.group": group } = this.columns;
    for (let at = lowerBound(bin, from); at < values.length && bin[at] <= to; at++) of[group[at]] += values[at];
  }

  #addSlots(of, metric, [first, last], [from, to]) {
    const values = this.columns[`slot.${metric}`] ?? [];
    const { "slot.group": group, "slot.slot": slot } = this.columns;
    this.#slotOrder ??= this.#orderSlots();
    const { order, starts } = this.#slotOrder;
    for (let at = starts[first]; at < starts[Math.min(last + 1, starts.length - 1)]; at++) {
      const row = order[at];
      if (slot[row] >= from && slot[row] <= to) of[group[row]] += values[row];
    }
  }

  /** Rows of slots by their steps. */
  #orderSlots() {
    const { "slot.step": step, "step.number": steps } = this.columns;
    const starts = new Int32Array(steps.length + 1);
    for (const one of step) starts[one + 1]++;
    for (let one = 0; one < steps.length; one++) starts[one + 1] += starts[one];
    const next = starts.slice();
    const order = new Int32Array(step.length);
    for (let row = 0; row < step.length; row++) order[next[step[row]]++] = row;
    return { order, starts };
  }

  /** The group of each site, and its part of it. */
  #groupSites() {
    const sites = this.columns["site.first"].length;
    const group = this.columns["site.group"] ?? Int32Array.from({ length: sites }, (_, site) => site);
    const weight = this.columns["site.weight"];
    this.groups = 0;
    for (const one of group) this.groups = Math.max(this.groups, one + 1);
    for (const one of this.columns["moment.group"] ?? []) this.groups = Math.max(this.groups, one + 1);
    const whole = new Float64Array(this.groups);
    for (let site = 0; site < sites; site++) whole[group[site]] += weight ? weight[site] : 1;
    this.group = group;
    this.partOf = Float64Array.from(group, (one, site) => (whole[one] > 0 ? (weight ? weight[site] : 1) / whole[one] : 0));
    this.#findIdle();
  }

  /** Groups of sites at which nothing ran: idle time is no work. */
  #findIdle() {
    this.idle = new Uint8Array(this.groups);
    const kind = this.columns["frame.kind"];
    for (const segment of this.head.segments) {
      const { [`site.${segment}`]: node, [`${segment}.frame`]: frame } = this.columns;
      if (!node || !frame.some((one) => kind[one] === KIND.GPU_IDLE)) continue;
      for (let site = 0; site < node.length; site++) if (kind[frame[node[site]]] === KIND.GPU_IDLE) this.idle[this.group[site]] = 1;
    }
  }

  #top(of, segment, most) {
    const nodes = segment === "function" ? this.#functions() : this.columns[`site.${segment}`];
    if (!nodes) return [];
    const found = new Map();
    for (let site = 0; site < nodes.length; site++) {
      const value = of[this.group[site]] * this.partOf[site];
      if (value > 0 && nodes[site] > 0) found.set(nodes[site], (found.get(nodes[site]) ?? 0) + value);
    }
    const named = new Map();
    for (const [node, value] of found) {
      const name = segment === "function" ? this.columns["frame.name"][node] : this.#nameOf(segment, node);
      named.set(name, (named.get(name) ?? 0) + value);
    }
    return [...named].map(([name, value]) => ({ name, value })).sort((one, other) => other.value - one.value).slice(0, most);
  }

  #nameOf(segment, node) {
    if (!this.#names.has(segment)) this.#names.set(segment, new Map());
    const known = this.#names.get(segment);
    if (!known.has(node)) {
      const { [`${segment}.parent`]: parent, [`${segment}.frame`]: frame, "frame.name": names } = this.columns;
      const way = [];
      for (let at = node; at > 0 && (PATHS.has(segment) || way.length === 0); at = parent[at]) way.unshift(names[frame[at]]);
      known.set(node, way.join("."));
    }
    return known.get(node);
  }

  /** The innermost Python function (its frame) of each site's code. */
  #functions() {
    if (this.functionOf) return this.functionOf;
    const { "code.parent": parent, "code.frame": frame, "frame.kind": kind, "site.code": code } = this.columns;
    const of = new Int32Array(parent.length);
    for (let node = 1; node < parent.length; node++) of[node] = kind[frame[node]] === KIND.PYTHON ? frame[node] : of[parent[node]];
    this.functionOf = Int32Array.from(code, (node) => of[node]);
    return this.functionOf;
  }
}
