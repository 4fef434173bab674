// The state of the flame graph, which lives in the address.

import { KNOWN, ownMetrics } from "../ui/metrics.js";

/** Each key of the address and its value when it is absent. */
const FIELDS = {
  domain: "", metric: "", by: "", order: "name", inverted: "", mine: "", recursion: "", detail: "", idle: "", // how the tree is made
  focus: "", hide: "", merge: "", sandwich: "", range: "", steps: "", ranks: "", against: "", scale: "", widths: "", base: "", color: "",
  dir: "", search: "", case: "", lit: "", zoom: "", at: "", // how it is looked at
};

const LOOKED = ["domain", "metric", "dir", "search", "case", "lit", "zoom", "at"];
const MADE = Object.keys(FIELDS).filter((key) => !LOOKED.includes(key));

export function readState(given) {
  const state = {};
  for (const [key, none] of Object.entries(FIELDS)) state[key] = given[key] ?? none;
  return state;
}

/** For the address: only the keys whose values differ from the usual ones. */
export function writeState(state) {
  const kept = {};
  for (const [key, none] of Object.entries(FIELDS)) if (state[key] !== none) kept[key] = state[key];
  return kept;
}

/** Domains of which the page has facts, devices first. */
export function domainsOf(blocks, metrics) {
  const all = ["device", "cpu", "wall", ...ownMetrics(metrics).map(({ domain }) => domain)];
  return all.filter((domain) => blocks.includes(`facts.${domain}`));
}

export function domainOf(state, domains, metrics) {
  const wanted = [...KNOWN, ...ownMetrics(metrics)].find((one) => one.name === state.metric)?.domain ?? state.domain;
  return domains.includes(wanted) ? wanted : domains[0];
}

/** Metrics that a domain may have, before its facts are read. */
export function metricsOf(domain, metrics) {
  return [...KNOWN, ...ownMetrics(metrics)].filter((one) => one.domain === domain);
}

/** The question to the worker; equal questions have equal answers. */
export function question(state, domain, hasBase, scope) {
  const asked = { domain, metric: state.metric };
  for (const key of MADE) asked[key] = state[key];
  const against = againstRest(state);
  return {
    ...asked,
    inverted: state.inverted === "1" && !state.sandwich,
    recursion: state.recursion === "merged",
    against,
    scope: state.range || state.steps ? "run" : scope, // a part of the run that a person chose may lie outside of steady steps
    base: hasBase && state.base !== "0" && !against,
  };
}

/** Whether a part of the run, or some of its ranks, is compared with the rest. */
export function againstRest({ against, range, steps, ranks }) {
  return against === "rest" && Boolean(range || steps || ranks);
}

/** Whether callees are drawn below their callers. */
export function growsDown(state) {
  if (state.sandwich) return true;
  return state.dir === "" ? state.inverted === "1" : state.dir === "down";
}
