// The recording: its command, machine and length, and notes on missing data.

import { amount } from "../../../text.js";
import { element } from "../ui/dom.js";
import { ownMetrics } from "../ui/metrics.js";

const SHOWN_NOTES = 1;

export function ranOf(app) {
  const { summary } = app.summary;
  return element(
    "header.ran",
    {},
    element("code.command", { title: summary.command }, summary.command || "(the command is not known)"),
    element("dl.facts", {}, ...facts(app.summary).map(([label, value, title]) => fact(label, value, title))),
    scopeOf(app),
    app.summary.inference ? element("p.scope", { title: "Calls of the model, by when they began" }, app.summary.inference) : null,
    notes(summary),
  );
}

/** The scope in words, and the way to the other one. */
function scopeOf(app) {
  const { scope } = app.summary;
  if (!scope) return null;
  const other = app.otherScope;
  const turn = other && element("button.scope-turn", { type: "button", title: `${other} (w)`, onclick: () => app.chooseScope() }, `Show ${app.scope === "run" ? "steady steps" : "the whole run"}`);
  return element("p.scope", { title: "The findings, this screen, the tables and the flame graph speak of this" }, scope, turn);
}

function facts({ summary, baseline }) {
  const found = summary.duration_ns ? [["took", amount(summary.duration_ns, "ns")]] : []; // an imported file need not know it
  if (summary.devices.length) found.push([summary.devices.length > 1 ? "devices" : "device", counted(summary.devices)]);
  for (const { name, total, unit, label } of summary.metrics) {
    if (METRICS[name]) found.push([METRICS[name], amount(total, unit), label]);
  }
  for (const { name, label } of ownMetrics(summary.metrics).slice(0, MOST_OWN)) {
    const { total, unit } = summary.metrics.find((one) => one.name === name);
    found.push([label, amount(total, unit), name]);
  }
  const processes = many(summary.processes, "process", "processes");
  const programs = summary.programs.map((one) => `${one.name} (${one.pid})`).join("\n");
  const threads = summary.threads ? `, ${many(summary.threads, "thread", "threads")}` : ""; // a file need not know them either
  found.push(["in", `${processes}${threads}`, programs]);
  const python = [...new Set(summary.programs.map((one) => one.python).filter(Boolean))];
  if (python.length) found.push(["Python", python.join(", ")]);
  const machine = [summary.host, summary.cores ? many(summary.cores, "core", "cores") : ""].filter(Boolean).join(", ");
  if (machine) found.push(["on", machine, `${summary.cpu}, Linux ${summary.system}`]);
  if (summary.started) found.push(["at", moment(summary.started), `profile made by aiflame ${summary.aiflame}`]);
  if (baseline) found.push(["compared with", baseline]);
  return found;
}

const MOST_OWN = 4; // metrics that the profile names itself
const METRICS = { "gpu-time": "GPU time", "cpu-time": "CPU time", "wall-time": "wall-clock time" };

/** Devices of one model are counted: `8 × NVIDIA H200`. */
function counted(devices) {
  const models = new Map();
  for (const name of devices) {
    const model = name.replace(/ \[\d+\]$/, "");
    models.set(model, (models.get(model) ?? 0) + 1);
  }
  return [...models].map(([model, count]) => (count > 1 ? `${count} × ${model}` : model)).join(", ");
}

function many(count, one, several) {
  return `${count.toLocaleString("en-US")} ${count === 1 ? one : several}`;
}

function moment(iso) {
  const date = new Date(iso);
  return Number.isNaN(date.valueOf()) ? iso : date.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

function fact(label, value, title = "") {
  return element("div", { title }, element("dt", {}, label), element("dd", {}, value));
}

/** Notes that a person must read before they believe the numbers. */
function notes(summary) {
  const told = [...ending(summary), ...summary.notes];
  if (!told.length) return null;
  const lines = told.map((text) => element("li", {}, text));
  if (told.length <= SHOWN_NOTES) return element("ul.degraded", {}, ...lines);
  const head = element("summary", {}, `${told.length} things to know about this recording: ${told[0]}`);
  return element("details.degraded", {}, head, element("ul", {}, ...lines));
}

function ending({ exit_status: status, complete }) {
  const found = [];
  if (!complete) found.push("The recording did not see the program's end: what is here is what there was until then.");
  if (status > 0) found.push(`The program ended with exit status ${status}.`);
  if (status < 0) found.push(`The program was ended by signal ${-status}.`);
  return found;
}
