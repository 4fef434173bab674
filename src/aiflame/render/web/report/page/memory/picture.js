// Segments of memory as bars, one behind the other in rows; in each its blocks, in the colours of their categories. Holes are left open.

export const TALL = 20; // px
const APART = 5;
const BETWEEN = 4;
const LEAST = 3;
const MOST_ROWS = 400;

/** Where each segment stands: {segment, x, y, wide}. The largest one is as wide as the picture; `omitted` ones have no room. */
export function laidOut(segments, width) {
  const largest = Math.max(...segments.map((one) => one.bytes), 1);
  const places = [];
  let [x, row] = [0, 0];
  for (const segment of segments) {
    const wide = Math.max(LEAST, Math.floor((segment.bytes / largest) * width));
    if (x > 0 && x + wide > width) [x, row] = [0, row + 1];
    if (row >= MOST_ROWS) break;
    places.push({ segment, x, y: row * (TALL + APART), wide });
    x += wide + BETWEEN;
  }
  return { places, height: places.length ? (Math.min(row, MOST_ROWS - 1) + 1) * (TALL + APART) : 0, omitted: segments.length - places.length };
}

/** Draws a segment. `scene`: {colors, style: {field, line, ink}}. */
export function drawSegment(context, { segment, x, y, wide }, scene, tall = TALL) {
  context.fillStyle = scene.style.field;
  context.fillRect(x, y, wide, tall);
  const each = wide / segment.bytes;
  for (const block of segment.blocks) {
    const from = Math.floor(x + block.offset * each);
    const to = Math.max(from + 1, Math.floor(x + (block.offset + block.bytes) * each));
    context.fillStyle = scene.colors.get(block.category) ?? scene.style.line;
    context.fillRect(from, y, Math.min(to, x + wide) - from - (to - from > 3 ? 1 : 0), tall);
  }
  context.strokeStyle = scene.style.line;
  context.lineWidth = 1;
  context.strokeRect(x + 0.5, y + 0.5, wide - 1, tall - 1);
}

/** The block or the hole at a place within a segment's bytes. */
export function pieceAt(segment, at) {
  let begin = 0;
  for (const block of segment.blocks) {
    if (at < block.offset) return { begin, end: block.offset };
    if (at < block.offset + block.bytes) return { block, begin: block.offset, end: block.offset + block.bytes };
    begin = block.offset + block.bytes;
  }
  return { begin, end: segment.bytes };
}
