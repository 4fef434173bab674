// The worker's answers for the view scope.

import { Moments } from "./scope_moments.js";

const opened = new Map();

async function moments(blocks, domain) {
  if (!opened.has(domain)) opened.set(domain, blocks.get(`facts.${domain}`).then((block) => new Moments(domain, block)));
  return opened.get(domain);
}

export const SCOPE_CALLS = {
  /** The view's contents: for each domain of the page its metrics, bins and steps. */
  "scope.about": async (blocks, given) => {
    const domains = given.blocks.filter((name) => name.startsWith("facts.")).map((name) => name.slice("facts.".length));
    return Promise.all(domains.map(async (domain) => (await moments(blocks, domain)).about()));
  },

  /** The metric in each bin of time. */
  "scope.bins": async (blocks, { domain, metric }) => (await moments(blocks, domain)).bins(metric),

  /** The metric in each slot of each step, a step after the other. */
  "scope.slots": async (blocks, { domain, metric }) => (await moments(blocks, domain)).slots(metric),

  /**
   * The most frequent kernels, functions, layers and phases of bins `from` to `to`, or of slots of some steps (`steps`: rows, `slots`: from and to,
   * all of them included).
   */
  "scope.part": async (blocks, given) => (await moments(blocks, given.domain)).part(given),
};
