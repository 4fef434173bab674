// The colours of parts of a whole, such as categories of memory: the same wherever they are drawn.

import { KIND } from "../../../kinds.js";

const COLORS = [
  [KIND.GPU_COPY, 1], [KIND.OS_KERNEL, 1], [KIND.GPU_STALL, 1], [KIND.LAYER, 4], [KIND.CPP, 1], [KIND.C, 1], [KIND.FAMILY, 4], [KIND.PYTHON, 4],
  [KIND.BOUNDARY, 1], [KIND.GPU_INSTRUCTION, 5], [KIND.WAIT, 0], [KIND.CPU_LINE, 3], [KIND.PHASE, 5],
];

/** The colour of each name. `color`: that of a frame. */
export function colorsOfParts(names, color) {
  return new Map(names.map((name, at) => [name, color(...COLORS[at % COLORS.length])]));
}
