// Findings: a sentence each, its number, and a button that opens the view behind it.

import { percent } from "../../../text.js";
import { writeChoices } from "../../shared/frame_choices.js";
import { element } from "../ui/dom.js";
import { ownMetrics } from "../ui/metrics.js";

const VIEWS = {
  flame: "Show it in the flame graph",
  kernels: "Show its source and SASS",
  tables: "Show the table",
  timeline: "Show it in the timeline",
  scope: "Show when",
  ranks: "Show the ranks",
};
const NOTHING = {
  sampled: "Nothing was sampled and no device was used. What runs for less than a hundredth of a second leaves no samples: record more.",
  used: "The program hardly used a processor or a device while it was recorded. Where it waits: aiflame record --wall.",
  untimed: "Findings are about time, and this profile has none. The flame graph shows where its values are.",
  large: "No kernel, line or wait takes enough of the time to be worth a sentence. The flame graph has all of it.",
};

export function findingsOf(app) {
  const { findings, summary } = app.summary;
  if (!findings.length) {
    return element("section.card.calm", {}, element("h2", {}, "Nothing stands out"), element("p", {}, nothing(summary)));
  }
  return element("section", { "aria-label": "Findings" }, element("ol.findings", {}, ...findings.map((finding) => row(app, finding))));
}

function row(app, { sentence, share, view }) {
  const [name, state] = evidence(view, app.summary.steps);
  return element(
    "li.card.finding",
    { dataset: { kind: view.view } },
    element("span.number", { "aria-hidden": "true" }, share >= 0.01 ? `${Math.round(share * 100)}%` : percent(share, 1)),
    element("p", {}, sentence),
    app.link(".button", name, state, VIEWS[view.view] ?? "Show it"),
  );
}

/** Where the evidence is: the view's name, and its part of the address. */
function evidence({ view, metric, by, search, kernel, table, place, column, names }, steps) {
  if (view === "kernels") return ["code", { kernel, place }];
  if (view === "tables" && names?.length) return ["tables", { table, column, only: writeChoices(names.map((text) => ({ what: "name", text }))) }];
  if (view === "tables") return ["tables", { table, filter: search }];
  if (view === "ranks") return ["ranks", {}];
  if (view === "timeline") return ["timeline", momentOf(search, steps)];
  return [view, { metric, by, search }];
}

/** When a step ran that a finding is about: `^Step\\.4$`. */
function momentOf(search, steps) {
  const number = Number(/^\^Step\\\.(\d+)\$$/.exec(search)?.[1] ?? -1);
  const series = steps.find((one) => one.step.includes(number));
  if (!series) return {};
  const at = series.step.indexOf(number);
  return { clock: `${series.begin_ns[at]}-${series.begin_ns[at] + series.took_ns[at]}` };
}

function nothing({ metrics, metric, duration_ns: duration }) {
  if (!metric) return NOTHING.sampled;
  if (ownMetrics(metrics).some((one) => one.name === metric)) return NOTHING.untimed;
  const total = metrics.find((one) => one.name === metric)?.total ?? 0;
  return total < duration / 100 ? NOTHING.used : NOTHING.large;
}
