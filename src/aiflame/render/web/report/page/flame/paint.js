// Which bars a row has in a window of the graph, and how they are drawn. Neighbours too narrow to tell apart are one bar.

export const NARROW = 1; // px
const LABELLED = 24; // px
const FADE = { plain: 1, above: 0.5, dim: 0.2 };

/** Calls `bar(node, from, to, many, found)` for what is to be seen of a row; x in px. `found` is a Found or null. */
export function bars(model, row, window, pixels, found, bar) {
  const { rows, left, width, frames, frame } = model;
  const scale = pixels / window.width;
  const end = model.starts[row + 1];
  let run = null;
  const endRun = () => {
    if (run) bar(run.node, run.from, run.to, true, run.found);
    run = null;
  };
  let place = model.firstAt(row, window.left);
  while (place < end) {
    const node = rows[place];
    const from = (left[node] - window.left) * scale;
    if (from >= pixels) break;
    const wide = width[node] * scale;
    if (wide >= NARROW) {
      endRun();
      bar(node, from, from + wide, false, found !== null && found.nodes[node] === 1);
      place++;
      continue;
    }
    // All that ends within this pixel goes into it.
    let next = model.firstAt(row, window.left + (from + NARROW / 2) / scale, place);
    if (next <= place) next = place + 1;
    const to = (model.right(rows[next - 1]) - window.left) * scale;
    if (to > from) {
      const hit = found?.any(place, next) ?? false;
      const kind = frames.kind[frame[node]];
      if (run && from - run.to < 0.5 && run.found === hit && (run.kind === kind || run.to - run.from < 3)) run.to = to;
      else {
        endRun();
        run = { node, from, to, kind, found: hit };
      }
    }
    place = next;
  }
  endRun();
}

/** Collects bars by colour, so that each colour is set once; labels come last. */
export class Layer {
  #byColor = new Map();
  #labels = [];

  add(color, fade, x, y, wide, tall) {
    const key = color * 4 + fade;
    if (!this.#byColor.has(key)) this.#byColor.set(key, []);
    this.#byColor.get(key).push(x, y, wide, tall);
  }

  label(text, x, y, fade) {
    this.#labels.push([text, x, y, fade]);
  }

  paint(context, colors) {
    const fades = [FADE.plain, FADE.above, FADE.dim, 0.75];
    for (const [key, list] of this.#byColor) {
      context.globalAlpha = fades[key & 3];
      context.fillStyle = colors.css(key >> 2);
      for (let at = 0; at < list.length; at += 4) context.fillRect(list[at], list[at + 1], list[at + 2], list[at + 3]);
    }
    for (const [text, x, y, fade] of this.#labels) {
      context.globalAlpha = fade === 0 ? 1 : 0.75;
      context.fillStyle = fade === 0 ? colors.label : colors.ink;
      context.fillText(text, x, y);
    }
    context.globalAlpha = 1;
  }
}

/** A bar's label, cut to its room, or "". */
export function labelFor(model, node, wide, ruler) {
  return wide < LABELLED ? "" : ruler.fit(model.name(node).slice(0, 1000), wide - 8);
}
