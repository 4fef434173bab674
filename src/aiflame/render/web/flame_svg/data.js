// Reads what render/flame_svg/payload.py wrote: base64 of gzip of (u32 length, JSON head, byte planes).

export const SVG = "http://www.w3.org/2000/svg";
export const XHTML = "http://www.w3.org/1999/xhtml";

export async function unpack(base64) {
  const packed = atob(base64.trim());
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at);
  const opened = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(opened).arrayBuffer();
  const headBytes = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, headBytes)));

  const columns = {};
  let at = 4 + headBytes;
  for (const [name, planes] of head.columns) {
    const wide = name === "own" || name === "folded"; // values pass 2^32, and stay below 2^53
    const values = wide ? new Float64Array(head.nodes) : new Int32Array(head.nodes);
    for (let plane = 0; plane < planes; plane++, at += head.nodes) {
      const part = new Uint8Array(buffer, at, head.nodes);
      const weight = 2 ** (8 * plane);
      for (let node = 0; node < head.nodes; node++) values[node] += part[node] * weight;
    }
    (columns[name] ??= []).push(values);
  }
  return { head, columns };
}
