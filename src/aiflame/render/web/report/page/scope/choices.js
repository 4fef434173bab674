// The choices of the heat map, and those that an address selects.

import { amount, shortLabel } from "../../../text.js";
import { columnChoices, rowChoices, ROWS, usualColumn } from "./grid.js";

const USUAL_ROWS = 50; // at most

/**
 * @param about the worker's description of each domain
 * @returns {{metric, by, steps, process, column, rows, offers}} `offers`: [options, chosen] for each choice; null where nothing says when
 *   it ran
 */
export function chosenOf(about, state) {
  const metrics = about.flatMap((domain) => domain.metrics.map((metric) => ({ ...metric, domain })));
  const metric = metrics.find((one) => one.name === state.metric) ?? metrics[0];
  if (!metric) return null;
  const { domain } = metric;
  const ways = [];
  if (metric.moments && domain.bins) ways.push(["time", "time"]);
  if (metric.slots && domain.steps.length) ways.push(["step", metric.unit === "samples" ? "steps (divided)" : "steps"]);
  const by = ways.find(([one]) => one === state.by)?.[0] ?? ways[0]?.[0];
  if (!by) return null;
  const all = domain.steps.map((step, row) => ({ ...step, row }));
  const processes = [...new Map(all.map((step) => [step.process, step.name]))];
  const process = processes.find(([one]) => String(one) === state.process)?.[0] ?? processes[0]?.[0];
  const columns = by === "time" ? columnChoices(domain.bins) : [];
  const column = columns.find((one) => String(one) === state.column) ?? (by === "time" ? usualColumn(domain.bins) : 0);
  const rowsOf = by === "time" ? rowChoices(column, domain.bins.bin_ns) : ROWS;
  const rows = rowsOf.find((one) => String(one) === state.rows) ?? rowsOf.filter((one) => one <= USUAL_ROWS).at(-1);
  const offers = {
    metric: [metrics.map((one) => [one.name, shortLabel(one)]), metric.name],
    by: [ways, by],
    column: [columns.map((one) => [one, amount(one, "ns")]), column],
    process: [by === "step" ? processes : [], process],
    rows: [rowsOf.map((one) => [one, String(one)]), rows],
    scale: [[["linear", "linear"], ["log", "logarithmic"]], state.scale === "log" ? "log" : "linear"],
  };
  return { metric, by, steps: all.filter((step) => step.process === process), process, column, rows, offers };
}
