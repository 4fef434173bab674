// Where the page's timeline is too coarse for the shown stretch, the page's server reads that stretch again, finer.

import { isServed, readCloser } from "../ui/data.js";
import { element } from "../ui/dom.js";

const REST = 200; // ms that a stretch is looked at before it is read

export class Closer {
  /** `on`: { close(is): the shown stretch may be shown closely, or no more; read(about): a stretch is here }. */
  constructor(data, on) {
    this.data = data;
    this.on = on;
    this.note = element("span.tl-closer", { role: "status" });
    this.note.hidden = true;
  }

  /** Whenever another stretch is looked at; `about`: of the timeline. */
  look({ begin, end }, about) {
    if (!(about.merged || about.leftOut.length || about.thinned) || (this.view?.begin === begin && this.view.end === end)) return;
    const view = { begin, end };
    this.view = view;
    this.origin = about.origin;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.#decide(view), REST);
    this.note.setAttribute("aria-busy", "true");
  }

  /** The view is hidden: stops reading. */
  stop() {
    clearTimeout(this.waiting);
    this.view = undefined;
    this.#end("");
  }

  async #decide(view) {
    const { close, counters, ask } = await this.data.ask("timeline.closer", view);
    if (view !== this.view) return;
    this.on.close(close && isServed());
    if (!ask) this.#end("");
    else if (!isServed()) this.#end(counters ? "" : "aiflame open shows single kernels here");
    else if (!this.reading || view.begin < this.reading.begin || view.end > this.reading.end) await this.#read(ask, view);
  }

  /** Gives up the read that is under way. `least`: the stretch to read where `ask` is too much. */
  async #read(ask, least) {
    this.reading?.abort.abort();
    const reading = { ...ask, abort: new AbortController() };
    this.reading = reading;
    this.#tell("reading closer…", true);
    try {
      const bytes = await readCloser({ begin: this.origin + ask.begin, end: this.origin + ask.end }, reading.abort.signal);
      if (this.reading !== reading) return;
      const about = await this.data.ask("timeline.add", { bytes });
      if (this.reading !== reading) return;
      this.#end("");
      this.on.read(about);
    } catch (error) {
      if (this.reading !== reading) return;
      const [begin, end] = [Math.floor(least.begin), Math.ceil(least.end)];
      if (ask.begin < begin || ask.end > end) await this.#read({ begin: Math.max(begin, ask.begin), end: Math.min(end, ask.end) }, least);
      else this.#end(`not read closer: ${error.message ?? error}`);
    }
  }

  #end(text) {
    this.reading?.abort.abort();
    this.reading = undefined;
    this.#tell(text, false);
  }

  #tell(text, busy) {
    this.note.textContent = text;
    this.note.hidden = !text;
    this.note.setAttribute("aria-busy", String(busy));
  }
}
