// A frame's stack as a line of collapsed stacks, as exchange/writers/collapsed.py writes them: `outer;inner;innermost 42`.

import { COLLAPSED_MARKS, KIND } from "../kinds.js";
import { plainText } from "../plain_text.js";

/**
 * @param {import("./model.js").Model} model
 * @param {number} node
 */
export function collapsed(model, node) {
  return `${model.stack(node).map((one) => written(model, one)).join(";")} ${model.width[node]}`;
}

/**
 * @param {import("./model.js").Model} model
 * @param {number} node
 */
function written(model, node) {
  const kind = model.kind(node);
  const name = plainText(model.name(node).replace(/;/g, ":")) || "[unknown]";
  return `${kind === KIND.PYTHON ? "py::" : ""}${name}${COLLAPSED_MARKS[/** @type {keyof typeof COLLAPSED_MARKS} */ (kind)] ?? ""}`;
}
