// A kernel as its page shows it: the samples of each instruction and each source line, and which belong together.

/**
 * Of a block `code.N`. A row of `instructions` and of a file's `lines` has `samples`, `notIssued` and `reasons`: [reason, samples], the most
 * frequent first. Lines also have `inclusive`: with the samples of code inlined into them. `chain` of an instruction: [file, line, function],
 * innermost first.
 */
export function kernelOf({ head, columns }) {
  const chains = chainsOf(columns);
  const { offset, at } = columns;
  const fresh = (sass, row) => ({ offset: offset[row], sass, samples: 0, notIssued: 0, reasons: [], chain: chains[at[row]] });
  const instructions = Array.from(columns.sass, fresh);
  for (let row = 0; row < columns["count.instruction"].length; row++) {
    const one = instructions[columns["count.instruction"][row]];
    one.samples += columns["count.samples"][row];
    one.notIssued += columns["count.not_issued"][row];
    one.reasons.push([columns["count.reason"][row], columns["count.samples"][row]]);
  }
  for (const one of instructions) one.reasons.sort((first, second) => second[1] - first[1]);
  const { columns: _, ...told } = head;
  return { ...told, instructions, files: filesOf(head, instructions) };
}

function chainsOf(columns) {
  const chains = [[]];
  for (let row = 1; row < columns["place.above"].length; row++) {
    const place = [columns["place.file"][row] - 1, columns["place.line"][row], columns["place.function"][row]];
    chains.push([place, ...chains[columns["place.above"][row]]]);
  }
  return chains;
}

/** The kernel's own first, where most instructions begin; then those with most samples. */
function filesOf(head, instructions) {
  const files = head.files.map((file, number) => ({ ...file, number, own: 0, samples: 0, lines: new Map() }));
  for (const [row, one] of instructions.entries()) {
    if (!one.chain.length) continue;
    files[one.chain.at(-1)[0]].own += 1;
    const met = new Set();
    for (const [depth, [file, number]] of one.chain.entries()) {
      if (!number) continue;
      const line = lineOf(files[file], number);
      if (depth === 0) addOwn(line, one);
      if (depth === 0) files[file].samples += one.samples;
      if (met.has(line)) continue;
      met.add(line);
      line.inclusive += one.samples;
      line.instructions.push(row);
    }
  }
  const own = files.reduce((most, file) => (file.own > (most?.own ?? 0) ? file : most), null);
  files.sort((one, other) => Number(other === own) - Number(one === own) || other.samples - one.samples || one.number - other.number);
  const inOrder = (lines) => [...lines.values()].map(finished).sort((one, other) => one.line - other.line);
  return files.map(({ lines, ...file }) => ({ ...file, lines: inOrder(lines) }));
}

function lineOf(file, number) {
  const fresh = { line: number, samples: 0, notIssued: 0, inclusive: 0, counts: new Map(), instructions: [] };
  if (!file.lines.has(number)) file.lines.set(number, fresh);
  return file.lines.get(number);
}

function addOwn(line, instruction) {
  line.samples += instruction.samples;
  line.notIssued += instruction.notIssued;
  for (const [reason, samples] of instruction.reasons) line.counts.set(reason, (line.counts.get(reason) ?? 0) + samples);
}

/** @param {Record<string, any>} line @returns {Record<string, any>} */
function finished({ counts, ...line }) {
  return { ...line, reasons: [...counts].sort((one, other) => other[1] - one[1]) };
}
