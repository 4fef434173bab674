// The state of the flame graph, which lives in the address.

/** Each key of the address and its value when it is absent. */
const FIELDS = {
  domain: "", metric: "", by: "", order: "name", inverted: "", mine: "", recursion: "", detail: "", idle: "", // how the tree is made
  focus: "", hide: "", merge: "", sandwich: "", range: "", steps: "", ranks: "", against: "", scale: "", widths: "", base: "", color: "",
  dir: "", search: "", case: "", lit: "", zoom: "", at: "", // how it is looked at
};

const LOOKED = ["domain", "metric", "dir", "search", "case", "lit", "zoom", "at"];
const MADE = Object.keys(FIELDS).filter((key) => !LOOKED.includes(key));

const KNOWN = [
  { name: "gpu-time", domain: "device", label: "GPU time" },
  { name: "gpu-stalls", domain: "device", label: "GPU samples" },
  { name: "gpu-latency", domain: "device", label: "GPU latency" },
  { name: "bytes", domain: "device", label: "bytes copied" },
  { name: "energy", domain: "device", label: "energy" },
  { name: "dram-bytes", domain: "device", label: "bytes of GPU memory" },
  { name: "l2-bytes", domain: "device", label: "bytes of L2" },
  { name: "pcie-bytes", domain: "device", label: "bytes over PCIe" },
  { name: "nvlink-bytes", domain: "device", label: "bytes over NVLink" },
  { name: "tensor", domain: "device", label: "tensor cores" },
  { name: "sm-activity", domain: "device", label: "SM activity" },
  { name: "could-win", domain: "device", label: "time that could be won" },
  { name: "cpu-time", domain: "cpu", label: "CPU time" },
  { name: "wall-time", domain: "wall", label: "wall-clock time" },
];

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
export function domainsOf(blocks) {
  return ["device", "cpu", "wall"].filter((domain) => blocks.includes(`facts.${domain}`));
}

export function domainOf(state, domains) {
  const wanted = KNOWN.find((one) => one.name === state.metric)?.domain ?? state.domain;
  return domains.includes(wanted) ? wanted : domains[0];
}

/** Metrics that a domain may have, before its facts are read. */
export function metricsOf(domain) {
  return KNOWN.filter((one) => one.domain === domain);
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
