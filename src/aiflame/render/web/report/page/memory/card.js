// One memory of one process in the map: its segments as a picture, the piece under the pointer, and the blocks of the chosen segment.

import { amount, clip, percent } from "../../../text.js";
import { element } from "../ui/dom.js";
import { drawSegment, laidOut, pieceAt, TALL } from "./picture.js";

const MOST_LISTED = 200;
const CLOSER = 34; // px: the chosen segment, as wide as the card

export class MemoryCard {
  #app;
  #memory;
  #scene;
  #changed;
  #plan = { places: [], height: 0, omitted: 0 };
  #at = -1;
  #canvas = element("canvas.map-canvas", { tabIndex: 0, role: "img" });
  #closer = element("canvas.map-canvas");
  #tip = element("div.map-tip", { role: "tooltip", hidden: true });
  #room = element("div.map-picture");
  #more = element("p.soft.fine", { hidden: true });
  #details = element("div.map-details", { hidden: true });
  #watch = new ResizeObserver(() => this.#draw());

  constructor(app, memory, colors, changed) {
    this.#app = app;
    this.#memory = memory;
    this.#changed = changed;
    const style = getComputedStyle(document.documentElement);
    this.#scene = { colors, style: Object.fromEntries(["field", "line", "ink", "accent"].map((name) => [name, style.getPropertyValue(`--${name}`)])) };
    const { name, bytes, used, largest, segments } = memory;
    const facts = `${amount(bytes, "bytes")} in ${segments.length.toLocaleString("en-US")} segments, ${amount(used, "bytes")} of them used by blocks: ${amount(bytes - used, "bytes")} are unused, the largest hole has ${amount(largest, "bytes")}.`;
    this.#canvas.setAttribute("aria-label", `${name}: ${facts}`);
    this.#room.append(this.#canvas, this.#tip);
    this.body = element("section.card.map-card", {}, element("div.head", {}, element("h2", {}, name)), element("p.map-facts", {}, facts), this.#room, this.#more, this.#details);
    this.body.dataset.of = name;
    this.#canvas.addEventListener("pointermove", (event) => this.#hover(event));
    this.#canvas.addEventListener("pointerleave", () => this.leave());
    this.#canvas.addEventListener("click", (event) => this.#clicked(event));
    this.#watch.observe(this.#room);
  }

  get name() {
    return this.#memory.name;
  }

  /** Shows the blocks of a segment; -1: of none. */
  choose(segment) {
    this.#at = this.#memory.segments[segment] ? segment : -1;
    this.#draw();
    this.#list();
  }

  move(step) {
    const count = this.#plan.places.length;
    if (!count) return;
    const next = Math.max(0, Math.min(count - 1, this.#at < 0 ? 0 : this.#at + step));
    this.#changed(next);
    this.#app.say(this.#words(this.#memory.segments[next]));
  }

  leave() {
    this.#tip.hidden = true;
  }

  #draw() {
    const width = Math.floor(this.#room.clientWidth);
    if (width < 50) return;
    this.#plan = laidOut(this.#memory.segments, width);
    this.#more.hidden = !this.#plan.omitted;
    this.#more.textContent = `${this.#plan.omitted.toLocaleString("en-US")} more segments have no room here; the table of segments has them.`;
    const context = sized(this.#canvas, width, this.#plan.height);
    for (const place of this.#plan.places) drawSegment(context, place, this.#scene);
    const chosen = this.#plan.places[this.#at];
    if (chosen) {
      context.strokeStyle = this.#scene.style.accent;
      context.lineWidth = 2;
      context.strokeRect(chosen.x + 1, chosen.y + 1, Math.max(chosen.wide, 4) - 2, TALL - 2);
      drawSegment(sized(this.#closer, width, CLOSER), { segment: chosen.segment, x: 0, y: 0, wide: width }, this.#scene, CLOSER);
    }
    this.#canvas.dataset.drawn = String(this.#plan.places.length);
  }

  /** The segment at the pointer, and the place in its bytes. */
  #met(event) {
    const box = this.#canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.x, event.clientY - box.y];
    const at = this.#plan.places.findIndex((one) => y >= one.y && y < one.y + TALL && x >= one.x && x < one.x + one.wide);
    if (at < 0) return null;
    const { segment, x: from, wide } = this.#plan.places[at];
    return { at, segment, piece: pieceAt(segment, ((x - from) / wide) * segment.bytes), x, y };
  }

  #hover(event) {
    const met = this.#met(event);
    this.#tip.hidden = !met;
    if (!met) return;
    const { piece, segment, x, y } = met;
    const size = amount(piece.end - piece.begin, "bytes");
    const facts = piece.block
      ? [element("strong", {}, `${size}, ${piece.block.category}`), element("div", {}, clip(piece.block.line, 160)), piece.block.layer && element("div.soft", {}, piece.block.layer)]
      : [element("strong", {}, `hole of ${size}`)];
    this.#tip.replaceChildren(...facts, element("div.soft.fine", {}, this.#words(segment)));
    const broad = this.#tip.offsetWidth;
    this.#tip.style.left = `${Math.max(0, Math.min(x + 14, this.#room.clientWidth - broad))}px`;
    this.#tip.style.top = `${y + 18}px`;
  }

  #clicked(event) {
    const met = this.#met(event);
    if (met) this.#changed(met.at === this.#at ? -1 : met.at);
  }

  #words({ bytes, used, largest, stream, blocks }) {
    const holes = used < bytes ? `${amount(bytes - used, "bytes")} unused, the largest hole ${amount(largest, "bytes")}` : "no hole";
    return `segment of ${amount(bytes, "bytes")}${stream ? ` (${stream})` : ""}: ${blocks.length.toLocaleString("en-US")} ${blocks.length === 1 ? "block" : "blocks"}, ${percent(used, bytes)} used, ${holes}`;
  }

  #list() {
    const segment = this.#memory.segments[this.#at];
    this.#details.hidden = !segment;
    if (!segment) return;
    const rows = segment.blocks.slice(0, MOST_LISTED).map(({ offset, bytes, category, layer, line }) =>
      element(
        "tr",
        {},
        element("td.number", {}, `+${amount(offset, "bytes")}`),
        element("td.number", {}, amount(bytes, "bytes")),
        element("td", {}, category),
        element("td.soft", {}, layer),
        element("td.map-line", { title: line }, clip(line, 160)),
      ),
    );
    const head = element("tr", {}, ...["At", "Bytes", "Category", "Layer", "Allocated by"].map((text, at) => element(`th${at < 2 ? ".number" : ""}`, {}, text)));
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
    const rest = segment.blocks.length - rows.length;
    const more = rest > 0 ? [element("p.soft.fine", {}, `and ${rest.toLocaleString("en-US")} more blocks`)] : [];
    this.#details.replaceChildren(element("p", {}, this.#words(segment)), this.#closer, element("div.map-list", {}, table), ...more);
  }
}

function sized(canvas, width, height) {
  const ratio = globalThis.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
