// The line under the picture: the frame at hand in words, what can be done with it, and what a search has matched.

import { percent } from "../../../text.js";
import { element } from "../ui/dom.js";
import { kernelOf, openSource } from "./menu.js";

export class Details {
  #node = 0;
  #matched = null;

  constructor(view) {
    this.view = view;
    this.text = element("span.flame-detail", {});
    this.source = element("a.flame-source", { href: "#", hidden: true, onclick: (event) => this.#openSource(event) });
    const title = "What can be done with this frame (m)";
    this.more = element("button.flame-more", { type: "button", title, "aria-label": title, onclick: () => this.#openMenu() }, "⋯");
    this.found = element("span.flame-matched", { role: "status" });
    this.body = element("div.flame-details", {}, this.more, this.text, this.source, this.found);
  }

  update() {
    this.#matched = null;
    this.show(this.view.chart.current);
    this.matched();
  }

  show(node) {
    const { view } = this;
    const { model } = view;
    this.#node = node;
    const zoom = view.chart.zoom;
    const parts = [view.amount(model.width[node]), `${view.share(model.width[node])} of all`];
    if (zoom > 0 && node >= zoom) parts.push(`${percent(model.width[node], model.width[zoom])} of the zoomed frame`);
    this.text.replaceChildren(element("bdi", {}, model.name(node).slice(0, 300)), element("span.flame-soft", {}, parts.join(" · ")));
    const place = model.place(node);
    const kernel = kernelOf(model, node);
    this.source.hidden = kernel === "" && place === "";
    this.source.textContent = kernel ? `source${place ? `: ${place.split("/").at(-1)}` : " and SASS"}` : place.split("/").at(-1);
    this.source.title = place || "Source and SASS of this kernel";
    this.source.classList.toggle("flame-plain", kernel === "");
    if (kernel) this.source.setAttribute("href", `#${new URLSearchParams({ view: "code", kernel })}`);
    else this.source.removeAttribute("href");
  }

  note(text) {
    this.text.replaceChildren(element("span", {}, text));
  }

  /** `Matched 12.3% · 4 frames`: of what is zoomed to, nothing counted twice. */
  matched() {
    const { view } = this;
    const { found, model, chart } = view;
    const key = [found, view.wrong, chart.zoom, view.state.search];
    if (this.#matched && key.every((one, at) => one === this.#matched[at])) return;
    this.#matched = key;
    if (view.wrong) this.found.textContent = "not a regular expression";
    else if (!found) this.found.textContent = "";
    else {
      const whole = model.width[chart.zoom];
      const parts = found.covered(chart.zoom);
      const names = parts.length > 1 ? ["callees: ", "callers: "] : [""];
      const frames = (count) => `${count.toLocaleString("en-US")} ${count === 1 ? "frame" : "frames"}`;
      const told = parts.map(({ sum, count }, at) => `${names[at]}Matched ${percent(sum, whole)} · ${frames(count)}`);
      this.found.textContent = told.join("; ");
    }
  }

  #openSource(event) {
    event.preventDefault();
    openSource(this.view, this.#node);
  }

  #openMenu() {
    const box = this.more.getBoundingClientRect();
    this.view.menu.open(this.#node, box.x, box.y - 20);
  }
}
