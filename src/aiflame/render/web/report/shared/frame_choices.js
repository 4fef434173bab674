// Lists of frames as an address has them: `mlp;attn` are names, `kind:Python` is a kind, `/gemm|conv/` an expression.

/** @typedef {{what: "name"|"kind"|"match", text: string}} Choice */

/** @returns {Choice[]} */
export function readChoices(text) {
  if (!text) return [];
  const items = [];
  let item = "";
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "\\" && at + 1 < text.length) item += text[++at];
    else if (text[at] === ";") {
      items.push(item);
      item = "";
    } else item += text[at];
  }
  items.push(item);
  return /** @type {Choice[]} */ (items.filter(Boolean).map(choice));
}

export function writeChoices(choices) {
  return choices.map((one) => written(one).replace(/[\\;]/g, "\\$&")).join(";");
}

/** Which frames are chosen by any of these. A broken expression chooses none. */
export function marked(frames, labels, choices) {
  const found = new Uint8Array(frames.name.length);
  for (const { what, text } of choices) {
    const byKind = (row) => labels[frames.kind[row]] === text;
    const test = what === "match" ? matcher(frames, text) : what === "kind" ? byKind : (row) => frames.name[row] === text;
    for (let row = 1; row < found.length; row++) if (!found[row] && test(row)) found[row] = 1;
  }
  return found;
}

/** An expression that finds this text, and one that finds nothing else. */
export function escaped(text) {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}

export function exactly(text) {
  return `^${escaped(text)}$`;
}

export function describe({ what, text }) {
  return what === "match" ? `/${text}/` : what === "kind" ? `all ${text} frames` : text;
}

function choice(item) {
  if (item.startsWith("kind:")) return { what: "kind", text: item.slice(5) };
  if (item.startsWith("name:")) return { what: "name", text: item.slice(5) };
  if (item.length > 2 && item.startsWith("/") && item.endsWith("/")) return { what: "match", text: item.slice(1, -1) };
  return { what: "name", text: item };
}

function written({ what, text }) {
  if (what === "kind") return `kind:${text}`;
  if (what === "match") return `/${text}/`;
  return /^(kind:|name:|\/.+\/$)/.test(text) ? `name:${text}` : text;
}

function matcher(frames, text) {
  let expression;
  try {
    expression = new RegExp(text, "iu");
  } catch {
    return () => false;
  }
  return (row) => expression.test(frames.name[row]) || (frames.full[row] !== "" && expression.test(frames.full[row]));
}
