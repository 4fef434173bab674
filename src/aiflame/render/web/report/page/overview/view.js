// The first screen: the recorded command, how busy its devices were, where the time went, and the findings.

import { amount, percent } from "../../../text.js";
import { element, wide } from "../ui/dom.js";
import { findingsOf } from "./findings.js";
import { occupancyOf } from "./occupancy.js";
import { ranOf } from "./ran.js";
import { stepsOf } from "./steps.js";

export const view = {
  name: "overview",
  title: "Overview",
  key: "1",
  scope: "remade",
  create(app) {
    const parts = [ranOf(app), findingsOf(app), occupancyOf(app), stepsOf(app), panelsOf(app)];
    return { body: element("section.overview", { "aria-label": "Overview" }, ...parts.filter(Boolean)), show() {} };
  },
};

/** The time by phase, by layer …: a few rows each, which lead to the flame graph that is grouped so. */
function panelsOf(app) {
  const { panels, summary } = app.summary;
  if (!panels.length) return null;
  const note = summary.estimated ? element("p.soft.fine", {}, "The time of fused kernels is divided over what they were made from, by an estimate.") : null;
  return element("div", {}, element("div.panels", {}, ...panels.map((panel) => panelOf(app, panel, summary))), note);
}

function panelOf(app, panel, { metric }) {
  const most = Math.max(...panel.rows.map((row) => row.share), 1e-12);
  const rows = panel.rows.map((row) => {
    const state = { metric: panel.table === "functions" ? undefined : metric, by: panel.by, search: row.search };
    return app.link(
      ".bar-row",
      "flame",
      state,
      element("span.bar-name", { title: row.name }, row.name),
      element("span.bar-share", {}, percent(row.share, 1)),
      element("span.bar-value", {}, amount(row.value, panel.unit)),
      element("span.bar-track", { "aria-hidden": "true" }, wide(element("span.bar-fill"), row.share / most)),
    );
  });
  const all = app.link(".more", "tables", { table: panel.table }, panel.count > rows.length ? `All ${panel.count.toLocaleString("en-US")} in a table` : "As a table");
  return element("section.card.panel", {}, element("h2", {}, panel.title, element("span.soft", {}, ` ${panel.of}`)), ...rows, all);
}
