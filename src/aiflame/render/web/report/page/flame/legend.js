// The legend, which filters, and a chip for each thing that the graph leaves out.

import { entries, groupNames, groupShares, inGroups } from "../../../flame/groups.js";
import { clip, percent } from "../../../text.js";
import { describe, readChoices, writeChoices } from "../../shared/frame_choices.js";
import { element } from "../ui/dom.js";

export class Legend {
  constructor(view) {
    this.view = view;
    this.body = element("div.flame-legend", { role: "group", "aria-label": "Kinds of frames" });
    this.model = null;
    this.shares = null;
  }

  /** Whether a node is highlighted, or null where all are. */
  test(lit) {
    if (!lit) return null;
    const { view } = this;
    const chosen = new Set(lit.split(";"));
    const named = Object.entries(groupNames(view.model));
    const groups = new Set(named.filter(([, name]) => chosen.has(name)).map(([group]) => Number(group)));
    return inGroups(view.model, groups, view.chart.colors.steps);
  }

  update() {
    const { view } = this;
    const { model, chart, state } = view;
    const { colors } = chart;
    if (this.model !== model) {
      this.model = model;
      this.shares = groupShares(model, colors.steps);
    }
    const lit = new Set(state.lit.split(";"));
    const alone = !state.inverted && !state.sandwich; // turned round, values lie at the outermost frames
    const chips = entries(model, colors.steps, this.shares, alone).map((entry) => this.#chip(entry, colors, lit.has(entry.key)));
    if (model.differential && this.shares.frames[0] > 0 && !model.byBase) {
      const show = () => view.change({ widths: "base" });
      chips.push(element("button.flame-note", { type: "button", onclick: show }, "Show what is gone"));
    }
    const scale = model.limits ? [element("span.flame-note", {}, "of the device's limit:")] : [];
    this.body.replaceChildren(...scale, ...chips);
  }

  #chip({ key, color, share, title }, colors, on) {
    const swatch = element("i.flame-swatch");
    swatch.style.background = colors.css(colors.shown(this.model, color));
    const given = { type: "button", title, "aria-label": share ? `${key}, ${share}` : key, dataset: { kind: key } };
    const chip = element("button.flame-kind", given, swatch, element("span", {}, key), share ? element("b", {}, share) : null);
    chip.setAttribute("aria-pressed", String(on));
    chip.addEventListener("click", (event) => this.#clicked(key, event.shiftKey));
    return chip;
  }

  #clicked(key, hide) {
    const { view } = this;
    if (hide && !view.model.differential && !view.model.limits) {
      addChoice(view, "hide", { what: "kind", text: key });
      return;
    }
    const lit = new Set(view.state.lit.split(";").filter(Boolean));
    if (!lit.delete(key)) lit.add(key);
    view.change({ lit: [...lit].join(";") });
  }
}

/** Filters and choices on top of the grouping, each a chip that takes it away. */
export class Chips {
  constructor(view) {
    this.view = view;
    this.body = element("div.flame-chips", { role: "group", "aria-label": "What is left out", hidden: true });
  }

  update() {
    const { state, model, info } = this.view;
    const chips = [];
    for (const [key, says] of [["focus", "only through"], ["hide", "without"], ["merge", "merged:"]]) {
      const choices = readChoices(state[key]);
      for (const choice of choices) {
        const rest = choices.filter((one) => one !== choice);
        chips.push(this.#chip(key, `${says} `, describe(choice), { [key]: writeChoices(rest) }));
      }
    }
    const middle = readChoices(state.sandwich).map(describe).join(", ");
    if (middle) chips.push(this.#chip("sandwich", "callers and callees of ", middle, { sandwich: "" }));
    const alone = model.against ? { against: "", scale: "", widths: "" } : {};
    if (state.range) chips.push(this.#chip("range", "time ", rangeText(state.range, info.bins), { range: "", ...alone }));
    if (state.steps) chips.push(this.#chip("steps", ...stepsText(state.steps), { steps: "", ...alone }));
    if (state.ranks) chips.push(this.#chip("ranks", /^\d+$/.test(state.ranks) ? "rank " : "ranks ", state.ranks, { ranks: "", ...alone }));
    if (model.against) chips.push(this.#chip("against", "compared with ", restText(state), alone));
    else if (model.differential && state.scale) {
      chips.push(this.#chip("scale", "baseline scaled to the same total: ", `× ${Number(model.scaled.toPrecision(3))}`, { scale: "" }));
    }
    if (state.inverted && !state.sandwich) chips.push(this.#chip("inverted", "", "bottom-up", { inverted: "" }));
    if (state.mine) chips.push(this.#chip("mine", "", "my code only", { mine: "" }));
    if (state.recursion) chips.push(this.#chip("recursion", "", "recursion collapsed", { recursion: "" }));
    if (!model.idle.shown && model.idle.share > 0) {
      chips.push(this.#chip("idle", "without idle time: ", `${percent(model.idle.share, 1)} of all`, { idle: "1" }));
    }
    if (model.byBase) chips.push(this.#chip("widths", "widths of the ", model.against ? "rest" : "baseline", { widths: "" }));
    const notes = [];
    if (model.divided) notes.push(dividedText(state, this.view.domain));
    if (model.differential && !model.against && !state.scale && model.scaled !== 1) {
      notes.push(`The baseline was sampled at another period: its samples count × ${model.scaled}.`);
    }
    if (model.cut) notes.push("Callers of frames with less than 0.001% of all are left out: a sandwich shows them.");
    this.body.replaceChildren(...chips, ...notes.map((text) => element("span.flame-note", {}, text)));
    this.body.hidden = chips.length + notes.length === 0;
  }

  #chip(key, says, what, without) {
    const remove = { type: "button", title: "Remove", "aria-label": `Remove: ${says}${what}`, onclick: () => this.view.change(without) };
    const told = element("span.flame-says", {}, says, element("bdi", {}, clip(what, 80)));
    return element("span.flame-chip", { dataset: { key } }, told, element("button", remove, "×"));
  }
}

export function addChoice(view, key, choice) {
  const choices = readChoices(view.state[key]);
  if (choices.some((one) => one.what === choice.what && one.text === choice.text)) return;
  view.change({ [key]: writeChoices([...choices, choice]) });
}

/** Sites know how much of them lies in a part of the run; the frames inside of them do not. */
function dividedText({ range, steps }, domain) {
  const what = domain === "device" ? "What lies inside a kernel is" : "The lines of a function are";
  const idle = domain === "device" ? " Idle time is left out." : "";
  return range || steps ? `${what} divided by how much of it ran in this range.` : `${what} divided by how much of it ran in steady steps.${idle}`;
}

function stepsText(steps) {
  const [from, to] = steps.split("-");
  return from === to ? ["step ", from] : ["steps ", `${from} – ${to}`];
}

function restText({ steps, ranks, scale }) {
  if (ranks) return `the other ranks, ${scale ? "scaled to the same total" : "their mean"}`;
  const rest = steps ? "the other steps without the first" : "the rest of the run";
  return `${rest}, ${scale ? "scaled to the same total" : steps ? "per step" : "per second"}`;
}

function rangeText(range, bins) {
  const [from, to] = range.split("-").map(Number);
  if (!bins?.bin_ns || !Number.isFinite(to)) return range;
  const seconds = (bin) => (bin * bins.bin_ns) / 1e9;
  const digits = bins.bin_ns < 1e7 ? 3 : 2;
  return `${seconds(Math.min(from, to)).toFixed(digits)} s – ${seconds(Math.max(from, to) + 1).toFixed(digits)} s`;
}
