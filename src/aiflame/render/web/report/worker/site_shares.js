// How much of each group of sites fell into a range of time, or into steps.

const WHOLE = /^(\d+)-(\d+)$/;
const RANK = /^rank (\d+)$/;

/** `3-9` as [3, 9], both included; null where there is none. @returns {[number, number] | null} */
export function span(text) {
  const [, from, to] = WHOLE.exec(text ?? "") ?? [];
  return from === undefined ? null : [Math.min(Number(from), Number(to)), Math.max(Number(from), Number(to))];
}

/**
 * An address's choice of time, else the page's scope: `parts` has for each group the part of all its moments that lies in the range and in the steps, `steps` marks these,
 * `length` is how much of the run that is, in steps or in bins, or how many ranks. Null where nothing is left out.
 */
export function chosenParts(facts, metric, { range, steps, ranks, scope }) {
  const ofRanks = ranksOf(facts, ranks);
  const parts = chosenTime(facts, metric, { range, steps, scope });
  return ofRanks ? onRanks(parts, ofRanks, 1) : parts;
}

/** The part of each group that lies in steady steps; null in a block that does not say. */
function steadyParts(facts, metric) {
  const { "steady.group": group, "step.steady": steps } = facts.columns;
  if (!group) return null;
  const groups = groupCount(facts);
  const parts = share(groups, group, amounts(facts, "steady", metric), () => true, wholes(facts, metric, groups));
  return { parts, steps: steps ?? null, length: 1 };
}

function chosenTime(facts, metric, { range, steps, scope }) {
  const bins = span(range);
  const numbers = span(steps);
  if (!bins && !numbers) return scope === "steps" ? steadyParts(facts, metric) : null;
  return found(facts, metric, bins && ((bin) => bin >= bins[0] && bin <= bins[1]), numbers && inSteps(facts, numbers));
}

/**
 * The opposite of the choice: on other ranks the same range and steps; else the time outside the range; or all other steps, but the first of each
 * process, which compiles and warms up.
 */
export function restParts(facts, metric, { range, steps, ranks, scope }) {
  const ofRanks = ranksOf(facts, ranks);
  if (ofRanks) return onRanks(chosenTime(facts, metric, { range, steps, scope }), ofRanks, 2);
  const bins = span(range);
  const numbers = span(steps);
  if (!numbers) return found(facts, metric, (bin) => bin < bins[0] || bin > bins[1], null);
  const chosen = inSteps(facts, numbers);
  const first = firstSteps(facts);
  const others = chosen.map((one, row) => (one || first[row] ? 0 : 1));
  return found(facts, metric, bins && ((bin) => bin >= bins[0] && bin <= bins[1]), others);
}

/**
 * For each group of sites 1 where it belongs to a chosen rank (`0,4-7`), 2 to another, 0 to none; and how many ranks [0, 1, 2] are. Null where the
 * address chooses no ranks, or there are none.
 */
export function ranksOf(facts, asked) {
  const forest = facts.forests.rank;
  if (!asked || !forest) return null;
  const spans = asked.split(",").map((one) => span(one) ?? span(`${one}-${one}`)).filter(Boolean);
  const state = new Uint8Array(forest.parent.length);
  const many = [0, 0, 0];
  for (let node = 1; node < state.length; node++) {
    const number = forest.parent[node] === 0 ? RANK.exec(facts.frames.name[forest.frame[node]])?.[1] : undefined;
    if (forest.parent[node] !== 0) state[node] = state[forest.parent[node]]; // processes that a rank has started
    else if (number !== undefined) {
      state[node] = spans.some(([from, to]) => Number(number) >= from && Number(number) <= to) ? 1 : 2;
      many[state[node]]++;
    }
  }
  const groups = new Uint8Array(groupCount(facts));
  const node = facts.columns["site.rank"];
  for (let site = 0; site < facts.sites; site++) groups[facts.group[site]] = state[node[site]];
  return { groups, many };
}

function onRanks(chosen, { groups, many }, wanted) {
  const parts = Float64Array.from(groups, (state, group) => (state === wanted ? (chosen?.parts[group] ?? 1) : 0));
  return { parts, steps: chosen?.steps ?? null, length: many[wanted] };
}

function found(facts, metric, inRange, steps) {
  const groups = groupCount(facts);
  const all = wholes(facts, metric, groups);
  let parts = new Float64Array(groups).fill(1);
  let length = 0;
  if (inRange) {
    const bin = facts.columns["moment.bin"] ?? [];
    parts = share(groups, facts.columns["moment.group"] ?? [], amounts(facts, "moment", metric), (at) => inRange(bin[at]), all);
    for (let at = 0; at < (facts.head.bins?.count ?? 0); at++) length += inRange(at) ? 1 : 0;
  }
  if (steps) {
    const { "slot.step": step = [], "slot.group": group = [] } = facts.columns;
    const inside = share(groups, group, amounts(facts, "slot", metric), (at) => steps[step[at]], all);
    for (let at = 0; at < groups; at++) parts[at] *= inside[at];
    length = steps.reduce((sum, one) => sum + one, 0);
  }
  return { parts, steps, length };
}

/** For each group its steps (rows, -1 for none) and the part of it that each has; those of a group begin at `of[group]`. `chosen`: a mark
 *  for each step, or null for all. */
export function stepParts(facts, metric, chosen) {
  const groups = groupCount(facts);
  const all = wholes(facts, metric, groups);
  const { "slot.group": group = [], "slot.step": step = [] } = facts.columns;
  const amount = amounts(facts, "slot", metric);
  const order = Array.from(group.keys()).sort((one, other) => group[one] - group[other] || step[one] - step[other]);
  const of = new Int32Array(groups + 1);
  const row = [];
  const part = [];
  let at = 0;
  for (let its = 0; its < groups; its++) {
    of[its] = row.length;
    const whole = all[its];
    let rest = 1;
    let inside = 0; // of the chosen steps
    while (at < order.length && group[order[at]] === its) {
      const number = step[order[at]];
      let sum = 0;
      while (at < order.length && group[order[at]] === its && step[order[at]] === number) sum += amount[order[at++]];
      const share = whole > 0 ? sum / whole : 0;
      rest -= share;
      if (share > 0 && (!chosen || chosen[number])) {
        row.push(number);
        part.push(share);
        inside += share;
      }
    }
    // A view of some steps has taken its part of the site already.
    if (chosen) for (let entry = of[its]; entry < row.length; entry++) part[entry] /= inside;
    else if (rest > 1e-9) {
      row.push(-1);
      part.push(rest);
    }
  }
  of[groups] = row.length;
  return { of, row, part };
}

function groupCount(facts) {
  let count = 0;
  for (const group of facts.group) if (group >= count) count = group + 1;
  return count;
}

function inSteps(facts, [from, to]) {
  return Uint8Array.from(facts.columns["step.number"] ?? [], (number) => (number >= from && number <= to ? 1 : 0));
}

function firstSteps(facts) {
  const { "step.number": numbers = [], "step.process": process } = facts.columns;
  const least = new Map();
  numbers.forEach((number, row) => least.set(process[row], Math.min(number, least.get(process[row]) ?? Infinity)));
  return Uint8Array.from(numbers, (number, row) => (number === least.get(process[row]) ? 1 : 0));
}

/** How much each moment or slot has: of the metric, or of the one whose moments stand for it. */
function amounts(facts, what, metric) {
  const { columns, head } = facts;
  const name = [metric, head.moments?.[metric], ...head.metrics.map((one) => one.name)].find((one) => columns[`${what}.${one}`]);
  return name ? columns[`${what}.${name}`] : [];
}

/** Each group's sum: of its moments, or of its slots where these have more. */
function wholes(facts, metric, groups) {
  const all = new Float64Array(groups);
  for (const what of ["moment", "slot"]) {
    const sum = new Float64Array(groups);
    const group = facts.columns[`${what}.group`] ?? [];
    const amount = amounts(facts, what, metric);
    for (let at = 0; at < group.length; at++) sum[group[at]] += amount[at];
    for (let at = 0; at < groups; at++) if (sum[at] > all[at]) all[at] = sum[at];
  }
  return all;
}

function share(groups, group, amount, chosen, all) {
  const part = new Float64Array(groups);
  for (let at = 0; at < group.length; at++) if (chosen(at)) part[group[at]] += amount[at];
  for (let at = 0; at < groups; at++) part[at] = all[at] > 0 ? Math.min(1, part[at] / all[at]) : 0;
  return part;
}
