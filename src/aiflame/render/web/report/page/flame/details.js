// The line under the picture: the chosen frame in words, its actions, and the share that a search has matched.

import { lineOf, matched } from "../../../flame/words.js";
import { writeAddress } from "../ui/address.js";
import { element } from "../ui/dom.js";
import { kernelOf, openSource, sourceOf } from "./menu.js";

export class Details {
  #node = 0;
  #matched = null;

  constructor(view) {
    this.view = view;
    this.text = element("span.flame-detail", {});
    this.source = element("a.flame-source", { href: "#", hidden: true, onclick: (event) => this.#openSource(event) });
    const title = "Actions for this frame (m)";
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
    this.text.replaceChildren(element("bdi", {}, model.name(node).slice(0, 300)), element("span.flame-soft", {}, lineOf(view.chart, node)));
    const place = model.place(node);
    const kernel = kernelOf(model, node);
    this.source.hidden = kernel === "" && place === "";
    this.source.textContent = kernel ? `source${place ? `: ${place.split("/").at(-1)}` : " and SASS"}` : place.split("/").at(-1);
    this.source.title = place || "Source and SASS of this kernel";
    const leads = sourceOf(view, node);
    this.source.classList.toggle("flame-plain", !leads);
    if (leads) this.source.setAttribute("href", writeAddress(...leads));
    else this.source.removeAttribute("href");
  }

  note(text) {
    this.text.replaceChildren(element("span", {}, text));
  }

  /** The share that the search has matched. */
  matched() {
    const { view } = this;
    const { found, chart } = view;
    const key = [found, view.wrong, chart.zoom, view.state.search];
    if (this.#matched && key.every((one, at) => one === this.#matched[at])) return;
    this.#matched = key;
    if (view.wrong) this.found.textContent = "not a regular expression";
    else this.found.textContent = matched(chart);
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
