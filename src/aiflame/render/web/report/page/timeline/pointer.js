// The row, slice or counter under the pointer in the timeline's picture, and the tooltip that describes it.

import { element } from "../ui/dom.js";
import { RULER } from "./picture.js";
import { counterText, hoverText } from "./words.js";

const SLACK = 2; // px beside a piece are still on it

export class Pointer {
  hovered = null;
  time = undefined;
  at = null;

  /** `shown`: the drawn {about, plan, pieces, view, top, partColors}; `changed` is called when the pointer is on something else. */
  constructor(app, canvas, picture, shown, changed) {
    this.app = app;
    this.canvas = canvas;
    this.picture = picture;
    this.shown = shown;
    this.changed = changed;
    this.tip = element("div.tl-tip");
    this.tip.hidden = true;
  }

  rowAt(y) {
    const { plan, top } = this.shown;
    const at = y - RULER + top;
    return y < RULER ? undefined : plan.rows.find((row) => at >= row.y && at < row.y + row.height);
  }

  /** Whether a click there folds a track. */
  folds(row, x) {
    return row?.fold !== undefined && (x < this.picture.gutter || row.title !== undefined);
  }

  /** The drawn piece at a place, or close beside it. */
  pieceAt(x, y) {
    const { pieces, view } = this.shown;
    const row = this.rowAt(y);
    const place = x < this.picture.gutter ? undefined : pieces?.placeOf.get(row?.lane);
    if (place === undefined) return null;
    const { left, right, from, row: rows, many, level, kind, name } = pieces;
    const time = this.picture.time(x, view);
    let best = null;
    let nearest = this.picture.pixel(view) * SLACK;
    const last = time + nearest;
    for (let at = from[place]; at < from[place + 1] && left[at] <= last; at++) {
      const off = Math.max(left[at] - time, time - right[at], 0);
      if (off <= nearest) {
        nearest = off;
        best = { lane: row.lane, row: rows[at], begin: left[at], end: right[at], many: many[at], level: level[at], kind: kind[at], name: name[at] };
      }
    }
    return best;
  }

  /** The counter at a place, and its values there: {counter, low, high, parts}. */
  counterAt(x, y) {
    const { pieces, view } = this.shown;
    const row = this.rowAt(y);
    const found = x < this.picture.gutter ? undefined : pieces?.counters.get(row?.counter);
    if (!found) return null;
    const at = Math.floor((this.picture.time(x, view) - pieces.begin) / pieces.pixel);
    if (!Number.isFinite(found.low[at])) return null;
    const parts = (row.parts ?? []).map((counter, place) => ({ counter, value: found.parts[place][at] }));
    return { counter: row.counter, low: found.low[at], high: found.high[at], parts };
  }

  move(x, y) {
    const { view, pieces } = this.shown;
    this.time = x >= this.picture.gutter && view ? this.picture.time(x, view) : undefined;
    this.at = { x, y };
    if (!view || !pieces) return;
    this.canvas.style.cursor = this.folds(this.rowAt(y), x) ? "pointer" : y < RULER && x >= this.picture.gutter ? "col-resize" : "";
    const counter = this.counterAt(x, y);
    if (counter) this.#tellCounter(counter, x, y);
    else this.#tell(this.pieceAt(x, y), x, y);
  }

  leave() {
    this.at = null;
    this.#tell(null);
  }

  /** Something else was drawn. */
  again() {
    if (this.at && !this.tip.hidden) this.move(this.at.x, this.at.y);
  }

  #tellCounter(counter, x, y) {
    if (this.hovered) this.changed();
    this.hovered = null;
    this.tip.hidden = false;
    const { about, partColors, view } = this.shown;
    this.tip.replaceChildren(...counterText(about.counters, counter, this.time, this.picture.pixel(view), partColors));
    this.#place(x, y);
  }

  async #tell(piece, x, y) {
    const changed = piece?.row !== this.hovered?.row || piece?.many !== this.hovered?.many;
    this.hovered = piece;
    this.tip.hidden = !piece;
    if (changed) this.changed();
    if (!piece) return;
    if (changed) {
      this.tip.replaceChildren(element("strong", {}, this.shown.about.names[piece.name]));
      const slice = await this.app.data.ask("timeline.slice", { row: piece.row });
      if (this.hovered !== piece || !slice) return;
      this.tip.replaceChildren(...hoverText(this.shown.about, piece, slice));
    }
    this.#place(x, y);
  }

  #place(x, y) {
    const room = this.canvas.clientWidth - this.tip.offsetWidth - 8;
    this.tip.style.left = `${Math.max(4, Math.min(x + 14, room))}px`;
    const below = y + 18 + this.tip.offsetHeight < this.canvas.clientHeight;
    this.tip.style.top = `${below ? y + 18 : Math.max(4, y - this.tip.offsetHeight - 10)}px`;
  }
}
