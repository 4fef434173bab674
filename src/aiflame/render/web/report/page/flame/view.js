// The flame graph: asks the worker for the tree that the address describes, and puts its parts together around the picture.

import { onKey } from "../../../flame/keys.js";
import { Model } from "../../../flame/model.js";
import { find } from "../../../flame/search.js";
import { amount, percent } from "../../../text.js";
import { copy } from "../ui/copying.js";
import { element } from "../ui/dom.js";
import { Chart } from "./canvas.js";
import { Colors } from "./colors.js";
import { Details } from "./details.js";
import { Gestures } from "./gestures.js";
import { KEYS, OWN } from "./keys.js";
import { Chips, Legend } from "./legend.js";
import { ActionMenu } from "./menu.js";
import { Minimap } from "./minimap.js";
import { follow, pathOf } from "./same_frame.js";
import { Stage, windowOf, writeWindow } from "./stage.js";
import { domainOf, domainsOf, growsDown, question, readState, writeState } from "./state.js";
import { Toolbar } from "./toolbar.js";
import { Tooltip } from "./tooltip.js";

const SETTLE_MS = 250; // a gesture that pauses for so long is over

class FlameView {
  #question = "";
  #frames = new Map(); // of each domain, with and without a base
  #infos = new Map();
  #size = new ResizeObserver(() => this.#resize());

  constructor(app) {
    this.app = app;
    this.metrics = app.summary?.summary?.metrics ?? [];
    this.domains = domainsOf(app.blocks ?? [], this.metrics);
    this.state = readState({});
    this.model = null;
    this.info = null;
    this.wholeRun = false;
    this.settling = 0; // a gesture that may go on
    this.told = new Stage();
    this.stage = this.told.body;
    this.empty = element("p.flame-empty", { hidden: true });
    this.chart = new Chart(this.told.canvas, () => this.#painted());
    this.tools = new Toolbar(this);
    this.chips = new Chips(this);
    this.legend = new Legend(this);
    this.minimap = new Minimap(this);
    this.details = new Details(this);
    this.tooltip = new Tooltip(this);
    this.menu = new ActionMenu(this);
    const above = [this.tools, this.chips, this.legend, this.minimap].map((one) => one.body);
    const below = [this.details, this.tooltip, this.menu].map((one) => one.body);
    this.body = element("section.flame", { "aria-label": "Flame graph" }, ...above, this.stage, this.empty, ...below);
    Object.assign(this.body, { flame: this }); // so that scripts and tests can read the drawn frames
    new Gestures(this);
    this.#size.observe(this.stage);
    this.stage.addEventListener("focus", () => this.#focused());
    this.stage.addEventListener("blur", () => this.chart.draw());
  }

  key(event) {
    return this.model !== null && onKey(this, event, OWN);
  }

  focusSearch() {
    this.tools.focusSearch();
  }

  copyStack(node) {
    this.menu.act("copyStack", node);
  }

  copyName(node) {
    this.menu.act("copyName", node);
  }

  flip() {
    this.change({ dir: this.chart.down ? "up" : "down" });
  }

  walkTo(node) {
    this.stage.focus({ preventScroll: true });
    this.setCurrent(node);
  }

  /** Closes the menu, or shows everything again, or leaves the search and removes highlights. */
  escape() {
    const { state } = this;
    if (this.menu.shown) this.menu.close();
    else if (this.chart.zoomed || state.zoom) this.zoomTo(0);
    else if (state.search || state.lit) this.change({ search: "", lit: "" });
    else this.stage.blur();
  }

  leave() {
    this.tooltip.hide();
    this.menu.close();
  }

  async show(given) {
    this.state = readState(given);
    this.chart.colors = new Colors(this.app.palette, this.app.theme());
    if (!this.domains.length) {
      this.#say("This report has no facts to draw a flame graph from.");
      return;
    }
    this.domain = domainOf(this.state, this.domains, this.metrics);
    const hasBase = this.app.blocks.includes(`base.${this.domain}`);
    this.#follow();
    const asked = question(this.state, this.domain, hasBase, this.app.scope);
    const key = JSON.stringify(asked);
    if (key !== this.#question) {
      this.#question = key;
      this.body.dataset.busy = "true";
      try {
        await this.#load(asked, key);
      } catch (error) {
        if (this.#question === key) {
          this.#question = "";
          delete this.body.dataset.busy;
        }
        throw error;
      }
      if (this.#question !== key) return; // a later question is on its way
    }
    if (!this.model) return;
    this.app.followsScope(!this.wholeRun);
    this.#apply();
  }

  /** After a change of the page's scope: nodes have other numbers. */
  #follow() {
    if (this.model && this.scope !== this.app.scope) {
      this.path = this.chart.zoom > 0 ? pathOf(this.model, this.chart.zoom) : null;
      this.state.zoom = "";
      this.state.at = "";
    }
    this.scope = this.app.scope;
  }

  /** Another state, in the history unless `push` says otherwise. */
  change(patch, push = true) {
    this.tooltip.hide();
    this.menu.close();
    const remade = Object.keys(patch).some((key) => !["search", "case", "lit", "zoom", "at"].includes(key));
    const next = { ...this.state, ...patch };
    if (remade && this.model) {
      this.path = this.chart.zoom > 0 ? pathOf(this.model, this.chart.zoom) : null;
      next.zoom = "";
      next.at = "";
    }
    if (push) {
      const before = { address: location.href, steps: history.state?.flame ?? 0 };
      this.app.go("flame", writeState(next));
      if (location.href === before.address) return;
      history.replaceState({ flame: before.steps + 1 }, "");
      this.tools.undo.disabled = false;
    } else {
      this.#replace(next);
      this.#apply();
    }
  }

  /** Back to the previous state of the graph; never out of the page. */
  undo() {
    if ((history.state?.flame ?? 0) > 0) history.back();
  }

  get canUndo() {
    return (history.state?.flame ?? 0) > 0;
  }

  zoomTo(node) {
    if (node === this.chart.zoom && !this.state.at) this.chart.scrollTo(this.chart.scrollFor(node));
    else this.change({ zoom: node > 0 ? String(node) : "", at: "" });
  }

  /** After the window was moved by hand: the address follows when the hand rests, as one step that can be undone. */
  moved() {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      this.settling = 0;
      const { window, whole, zoomed } = this.chart;
      this.change({ zoom: "", at: zoomed ? writeWindow(window, whole) : "" });
    }, SETTLE_MS);
  }

  search(pattern, done) {
    const began = performance.now();
    this.searching = began;
    if (done) this.change({ search: pattern });
    else this.change({ search: pattern }, false);
  }

  setCurrent(node, tell = true) {
    this.chart.current = node;
    this.chart.reveal(node);
    this.chart.draw();
    this.told.describe(this, node);
    this.details.show(node);
    if (tell) this.app.say(this.told.told);
  }

  hover(node, x, y) {
    if (node !== this.chart.hovered) {
      this.chart.hovered = node;
      this.chart.draw();
      this.details.show(node >= 0 ? node : this.chart.current);
    }
    if (node >= 0) this.tooltip.show(node, x, y);
    else this.tooltip.hide();
  }

  async copy(text, what) {
    const done = (await copy(text)) ? `Copied ${what}` : "The browser refuses to copy";
    this.details.note(done);
    this.app.say(done);
  }

  /** A value as a share of all that was measured. */
  share(value) {
    return percent(value, this.model.all);
  }

  amount(value) {
    return amount(value, this.model.metric.unit);
  }

  async #load(asked, key) {
    const { domain, base } = asked;
    const framesKey = `${domain} ${base}`;
    if (!this.#frames.has(framesKey)) this.#frames.set(framesKey, this.app.data.ask("frames", { domain, base }));
    if (!this.#infos.has(domain)) this.#infos.set(domain, this.app.data.ask("domain", { domain }));
    const answered = this.app.data.ask("flame", asked);
    const [answer, frames, info] = await Promise.all([answered, this.#frames.get(framesKey), this.#infos.get(domain)]);
    if (this.#question !== key) return;
    this.info = info;
    this.wholeRun = answer.wholeRun;
    this.model = new Model(answer, frames, info.kinds);
    this.model.against = asked.against;
    this.model.useBase(asked.widths === "base");
    this.chart.model = this.model;
    this.chart.hovered = -1;
    this.chart.current = 0;
    this.found = null;
    this.foundBy = "";
    this.fresh = true;
    delete this.body.dataset.busy;
    if (this.path) {
      const node = follow(this.model, this.path);
      this.path = null;
      this.chart.current = node;
      if (node > 0) this.#replace({ ...this.state, zoom: String(node) });
    }
  }

  #apply() {
    const { chart, model, state } = this;
    const zoom = Number(state.zoom);
    const node = Number.isInteger(zoom) && zoom > 0 && zoom < model.count ? zoom : 0;
    const turned = chart.down !== growsDown(state);
    chart.down = growsDown(state);
    const again = node === chart.zoom && !this.fresh && !turned;
    chart.zoom = node;
    this.#search();
    chart.lit = this.legend.test(state.lit);
    for (const part of [this.tools, this.chips, this.legend, this.details]) part.update();
    this.#say(model.width[0] > 0 ? "" : "Nothing here has a value. Remove a chip above, or choose another metric.");
    this.#resize();
    this.#place(node, again);
    this.told.describe(this, chart.current);
    this.fresh = false;
    chart.draw();
  }

  /** Brings the window to where the state says. */
  #place(node, again) {
    const { chart, model, state } = this;
    const here = windowOf(state.at, chart.whole);
    const { left, width } = here ?? { left: model.left[node], width: Math.max(model.width[node], chart.whole * 1e-12) };
    const there = Math.abs(chart.window.left - left) < chart.whole * 1e-6 && Math.abs(chart.window.width / width - 1) < 1e-3;
    const scroll = here || again ? chart.scroll : chart.scrollFor(node);
    if (this.fresh) {
      chart.setWindow(left, width);
      chart.scrollTo(here ? chart.scrollFor(0) : scroll);
    } else if (!there || !again) chart.moveTo(left, width, scroll);
  }

  #search() {
    const { model, state, chart } = this;
    const key = JSON.stringify([state.search, state.case]);
    if (this.foundBy !== key) {
      this.foundBy = key;
      this.wrong = false;
      try {
        this.found = state.search ? find(model, state.search, state.case === "1") : null;
      } catch {
        this.found = null;
        this.wrong = true;
      }
    }
    chart.found = this.found;
  }

  #replace(state) {
    this.state = state;
    const { flame = 0 } = history.state ?? {};
    this.app.replace(writeState(state));
    history.replaceState({ flame }, "");
  }

  #painted() {
    if (this.searching) {
      performance.measure("aiflame:search", { start: this.searching });
      this.searching = 0;
    }
    document.documentElement.dataset.firstPaint ??= String(Math.round(performance.now()));
    this.minimap.update();
    this.details.matched();
    if (this.chart.moving) delete this.body.dataset.settled;
    else this.body.dataset.settled = "true";
  }

  #resize() {
    const { clientWidth, clientHeight } = this.stage;
    if (clientWidth && (clientWidth !== this.chart.pixels || clientHeight !== this.chart.height || devicePixelRatio !== this.chart.ratio)) {
      this.chart.resize(clientWidth, clientHeight);
    }
  }

  #focused() {
    if (!this.model) return;
    this.told.describe(this, this.chart.current);
    this.chart.draw();
  }

  #say(text) {
    this.empty.textContent = text;
    this.empty.hidden = text === "";
  }
}

export const view = {
  name: "flame",
  title: "Flame graph",
  key: "2",
  scope: "asked for",
  keys: KEYS,
  create(app) {
    return new FlameView(app);
  },
};
