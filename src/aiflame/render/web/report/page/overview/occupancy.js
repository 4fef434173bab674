// How busy each device was: one stacked bar each. For programs without a device, how much of the processor they used.

import { amount, percent } from "../../../text.js";
import { element, wide } from "../ui/dom.js";

export const STATES = [
  ["busy", "busy", "kernels ran"],
  ["communication", "communication", "only collectives ran"],
  ["copies", "copies", "only memory was copied"],
  ["idle", "idle", "nothing ran"],
];
const MOST_ROWS = 16;

export function occupancyOf(app) {
  const { occupancy } = app.summary.summary;
  return occupancy.length ? ofDevices(app, occupancy) : ofProcessor(app);
}

function ofDevices(app, occupancy) {
  const several = new Set(occupancy.map((one) => one.process)).size > 1;
  const stepped = occupancy.some((one) => one.in_steps);
  const rows = occupancy.slice(0, MOST_ROWS).flatMap((one) => {
    const label = several ? `${one.device} ${one.process_name}` : one.device;
    const whole = one.end_ns - one.begin_ns;
    const title = `${amount(whole, "ns")} from the first work to the last`;
    if (!one.in_steps) return [row(label, one, whole, title)];
    const { count, whole_ns: inside } = one.in_steps;
    const many = `${count.toLocaleString("en-US")} ${count === 1 ? "step" : "steps"}`;
    const below = row(`whole run, ${amount(whole, "ns")}`, one, whole, title);
    below.classList.add("second");
    return [row(label, one.in_steps, inside, `${amount(inside, "ns")} in ${many} after warm-up`), below];
  });
  const rest = occupancy.length - MOST_ROWS;
  const used = STATES.filter(([name]) => name === "busy" || name === "idle" || occupancy.some((one) => one[`${name}_ns`] > 0));
  const chips = used.map(([name, label, what]) => element("li", { title: what }, element(`i.swatch.${name}`), label));
  const title = element("h2", {}, "GPU", stepped ? element("span.soft", {}, " within steady steps") : null);
  return element(
    "section.card.occupancy",
    { "aria-label": "How busy the devices were" },
    element("div.head", {}, title, element("ul.legend", {}, ...chips), app.link(".more", "timeline", {}, "Timeline")),
    ...rows,
    rest > 0 ? element("p.soft.fine", {}, `and ${rest} more`) : null,
  );
}

function row(label, times, whole, title) {
  const parts = STATES.map(([name]) => times[`${name}_ns`]);
  const bar = element("span.stack", { "aria-hidden": "true" });
  const told = [];
  for (const [place, [name, word]] of STATES.entries()) {
    if (!parts[place]) continue;
    const share = percent(parts[place], whole);
    told.push(`${word} ${share}`);
    const text = parts[place] / whole > 0.07 ? `${word} ${share}` : "";
    const part = element(`span.${name}`, { title: `${word}: ${amount(parts[place], "ns")}, ${share}` }, element("span", {}, text));
    bar.append(wide(part, parts[place] / whole));
  }
  return element("div.device", { title }, element("span.device-name", {}, label), bar, element("span.soft.shares", {}, told.join(", ")));
}

function ofProcessor(app) {
  const { metrics, duration_ns: duration, cores } = app.summary.summary;
  const used = metrics.find((one) => one.name === "cpu-time")?.total ?? 0;
  if (!used || !duration || !cores) return null;
  const mean = used / duration;
  const part = element("span.busy", {}, element("span", {}, percent(used, duration * cores)));
  const bar = element("span.stack", { "aria-hidden": "true" }, wide(part, used / (duration * cores)));
  const average = `${mean.toFixed(mean < 10 ? 1 : 0)} of ${cores} cores on average`;
  const told = `${average}: ${amount(used, "ns")} of CPU time in ${amount(duration, "ns")}`;
  const none = element("span.soft", {}, "no GPU was used");
  return element(
    "section.card.occupancy",
    { "aria-label": "How busy the processor was" },
    element("div.head", {}, element("h2", {}, "CPU"), none, app.link(".more", "timeline", {}, "Timeline")),
    element("div.device", {}, element("span.device-name", {}, "all cores"), bar, element("span.soft.shares", {}, told)),
  );
}
