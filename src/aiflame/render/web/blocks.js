// Reads a block that render/blocks.py wrote: gzip of (u32 length of the head, JSON head, columns).

/** @returns {Promise<{head: object, columns: Object<string, Int32Array|Float64Array|string[]>}>} */
export async function readBlock(bytes) {
  const opened = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(opened).arrayBuffer();
  const headBytes = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, headBytes)));
  const columns = {};
  let at = 4 + headBytes;
  for (const [name, kind, count, planes, wide] of head.columns) {
    const size = kind === "text" ? planes : count * planes;
    const raw = new Uint8Array(buffer, at, size);
    columns[name] = kind === "text" ? texts(raw, columns[`${name}.length`]) : numbers(raw, kind, count, planes, wide);
    at += size;
  }
  return { head, columns };
}

export function fromBase64(text) {
  const packed = atob(text.trim());
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at);
  return bytes;
}

function numbers(raw, kind, count, planes, wide) {
  if (!wide && planes < 4) return kind === "delta" ? unfolded(small(raw, count, planes)) : small(raw, count, planes);
  const values = wide || planes > 4 ? new Float64Array(count) : new Int32Array(count);
  const stored = new Float64Array(count);
  for (let plane = 0; plane < planes; plane++) {
    const weight = 2 ** (8 * plane);
    const from = plane * count;
    for (let row = 0; row < count; row++) stored[row] += raw[from + row] * weight;
  }
  if (kind === "delta") {
    let value = 0;
    for (let row = 0; row < count; row++) {
      const folded = stored[row];
      value += folded % 2 === 0 ? folded / 2 : -(folded + 1) / 2;
      values[row] = value;
    }
  } else {
    values.set(stored);
  }
  return values;
}

/** The same for numbers of up to three bytes, which most are. */
function small(raw, count, planes) {
  const values = new Int32Array(raw.subarray(0, count));
  for (let plane = 1; plane < planes; plane++) {
    const from = plane * count;
    for (let row = 0; row < count; row++) values[row] |= raw[from + row] << (8 * plane);
  }
  return values;
}

function unfolded(values) {
  let value = 0;
  for (let row = 0; row < values.length; row++) {
    value += (values[row] >> 1) ^ -(values[row] & 1);
    values[row] = value;
  }
  return values;
}

function texts(raw, lengths) {
  const decoder = new TextDecoder();
  const found = new Array(lengths.length);
  const all = decoder.decode(raw);
  const plain = all.length === raw.length; // a byte for each character: they need not be read one by one
  let at = 0;
  for (let row = 0; row < lengths.length; row++) {
    const end = at + lengths[row];
    found[row] = plain ? all.slice(at, end) : decoder.decode(raw.subarray(at, end));
    at = end;
  }
  return found;
}
