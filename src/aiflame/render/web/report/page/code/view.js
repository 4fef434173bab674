// Kernels: a list, the hottest first, and beside it the source and the instructions of one.

import { amount, percent } from "../../../text.js";
import { element, wide } from "../ui/dom.js";
import { KernelPage } from "./kernel_page.js";

const MOST_LISTED = 400; // rows in the page; the filter finds the others

export const view = {
  name: "code",
  title: "Source and SASS",
  key: "5",
  there: ({ blocks }) => blocks.includes("code") || !blocks.some((name) => name.startsWith("source.")),
  keys: [
    ["n p", "the next hottest, the one before"],
    ["↑ ↓", "a line further"],
    ["[ ]", "the kernel before, the next"],
    ["Esc", "let go of the line"],
    ["c", "copy the instructions"],
  ],
  create: (app) => new Code(app),
};

class Code {
  #app;
  #list = null;
  #state = {};
  #shown = ""; // the kernel that is shown
  #filter = element("input", { type: "search", placeholder: "Filter kernels", "aria-label": "Filter the kernels", spellcheck: false });
  #names = element("div.kernel-names");
  #room = element("div.kernel-room");
  #page;

  constructor(app) {
    this.#app = app;
    this.#page = new KernelPage(app, (change) => this.#change(change));
    this.body = element("section.code", { "aria-label": "Source and SASS" }, element("aside", {}, this.#filter, this.#names), this.#room);
    this.#filter.addEventListener("input", () => this.#drawList());
  }

  async show(state) {
    this.#state = state;
    if (!this.#app.blocks.includes("code")) {
      this.body.replaceChildren(element("p.note", {}, this.#noKernels()));
      return;
    }
    this.#list ??= await this.#app.data.ask("kernels");
    const kernel = this.#kernel();
    if (this.#shown !== kernel.name || !this.#names.childElementCount) this.#drawList();
    if (this.#shown === kernel.name) {
      this.#page.go(state);
      return;
    }
    this.#shown = kernel.name;
    if (kernel.number >= this.#list.pages) {
      const told = `This file has the pages of the ${this.#list.pages} hottest kernels. All are in aiflame open, and in the terminal: `;
      this.#room.replaceChildren(element("p.note", {}, told, element("code", {}, `aiflame annotate '${kernel.short}'`)));
      return;
    }
    const told = await this.#app.data.ask("kernel", { number: kernel.number });
    if (this.#shown !== kernel.name) return;
    this.#room.replaceChildren(this.#page.body);
    this.#page.show(told, state);
  }

  key(event) {
    if (!this.#list) return false;
    if (event.key === "[" || event.key === "]") {
      const number = this.#kernel().number + (event.key === "]" ? 1 : -1);
      const next = this.#list.kernels[number];
      if (next) this.#app.go("code", { kernel: next.name });
      return true;
    }
    return this.#page.key(event);
  }

  #change(change) {
    this.#state = { ...this.#state, kernel: this.#shown, ...change };
    this.#app.replace(this.#state);
  }

  /** The one that the address names, as compiled or by its short name; else the hottest. */
  #kernel() {
    const { kernels } = this.#list;
    const wanted = this.#state.kernel;
    return (wanted && (kernels.find((one) => one.name === wanted) ?? kernels.find((one) => one.short === wanted))) || kernels[0];
  }

  #drawList() {
    if (!this.#list) return; // show() does, once it is there
    const wanted = this.#filter.value.toLowerCase();
    const matching = this.#list.kernels.filter((one) => [one.short, one.name].some((name) => name.toLowerCase().includes(wanted)));
    const of = this.#list.samples ? "samples" : "time";
    const most = Math.max(...this.#list.kernels.slice(0, 50).map((one) => one[of]), 1);
    const now = this.#kernel();
    const rows = matching.slice(0, MOST_LISTED).map((one) => this.#row(one, of, most, one === now));
    const rest = matching.length - rows.length;
    const head = element("p.soft.fine", {}, of === "samples" ? "by samples" : "by GPU time: no kernel has samples");
    const more = rest > 0 ? element("p.soft.fine", {}, `and ${rest.toLocaleString("en-US")} more: filter`) : "";
    this.#names.replaceChildren(head, ...rows, more);
    this.#names.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  #row(kernel, of, most, current) {
    const share = percent(kernel[of], this.#list[of]);
    const [launches, samples] = [kernel.launches, kernel.samples].map((count) => count.toLocaleString("en-US"));
    const title = `${kernel.full || kernel.name}\n${launches} launches, ${amount(kernel.time, "ns")}, ${samples} samples`;
    const row = this.#app.link(
      kernel[of] ? ".kernel-name" : ".kernel-name.cold",
      "code",
      { kernel: kernel.name },
      element("span.bar-name", {}, kernel.short || "(no name)"),
      element("span.bar-share", {}, kernel[of] ? share : "none"),
      element("span.bar-track", { "aria-hidden": "true" }, wide(element("span.bar-fill"), kernel[of] / most)),
    );
    row.title = title.slice(0, 2000);
    if (current) row.setAttribute("aria-current", "true");
    return row;
  }

  #noKernels() {
    const elsewhere = "Lines of Python and C++ are in the flame graph (detail: line) and in the table of lines.";
    return `No GPU kernel ran in this profile, so there is no GPU code to show. ${elsewhere}`;
  }
}
