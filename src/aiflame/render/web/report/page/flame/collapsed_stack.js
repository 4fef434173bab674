// A frame's stack as a line of collapsed stacks, as exchange/collapsed.py writes them: `outer;inner;innermost 42`.

const PYTHON = 3; // as profile/kinds.py numbers them
const MARKS = { 6: "_[k]", 8: "_[G]", 9: "_[G]", 19: "_[G]", 10: "_[g]", 11: "_[g]", 12: "_[g]", 14: "_[g]" };

export function collapsed(model, node) {
  return `${model.stack(node).map((one) => written(model, one)).join(";")} ${model.width[node]}`;
}

function written(model, node) {
  const kind = model.kind(node);
  const name = model.name(node).replace(/;/g, ":").replace(/[\r\n\0]/g, " ");
  return `${kind === PYTHON ? "py::" : ""}${name}${MARKS[kind] ?? ""}`;
}
