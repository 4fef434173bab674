// A baseline's frames among those of the profile: the same function has one row, even if its line or its process's number differs.

import { KIND } from "../../kinds.js";

const NUMBERED = /^(.+) \(\d+\)$/s;

/** Frames of both, those of the profile first; `rowOf` says which row each frame of the base has. As attribute/transforms/difference.py. */
export function alignedFrames(now, base) {
  const rows = new Map();
  const add = (frames, row) => {
    const at = sameness(frames, row);
    if (!rows.has(at)) rows.set(at, row);
  };
  for (let row = 0; row < now.name.length; row++) add(now, row);
  const frames = { ...now };
  for (const column of ["name", "full", "files", "modules"]) frames[column] = now[column].slice();
  const numbers = { kind: Array.from(now.kind), file: Array.from(now.file), module: Array.from(now.module), line: Array.from(now.line), fold: Array.from(now.fold) };
  const rowOf = new Int32Array(base.name.length);
  const added = [];
  for (let row = 1; row < base.name.length; row++) {
    const same = sameness(base, row);
    let at = rows.get(same);
    if (at === undefined) {
      at = frames.name.push(base.name[row]) - 1;
      rows.set(same, at);
      frames.full.push(base.full[row]);
      added.push([at, base.fold[row]]);
      numbers.fold.push(0);
      numbers.kind.push(base.kind[row]);
      numbers.line.push(base.line[row]);
      numbers.file.push(frames.files.push(base.files[base.file[row]] ?? "") - 1);
      numbers.module.push(frames.modules.push(base.modules[base.module[row]] ?? "") - 1);
    }
    rowOf[row] = at;
  }
  for (const [at, fold] of added) numbers.fold[at] = rowOf[fold];
  for (const [column, values] of Object.entries(numbers)) frames[column] = Int32Array.from(values);
  return { frames, rowOf };
}

/** For each frame the first that is the same but for the numbers of its process or thread. */
export function unnumbered(frames) {
  const rows = new Map();
  return Int32Array.from(frames.name, (_, row) => {
    if (row === 0) return 0;
    const same = sameness(frames, row);
    if (!rows.has(same)) rows.set(same, row);
    return rows.get(same);
  });
}

function sameness(frames, row) {
  const kind = frames.kind[row];
  const name = kind === KIND.PROCESS || kind === KIND.THREAD ? frames.name[row].replace(NUMBERED, "$1") : frames.name[row];
  return JSON.stringify([name, kind, frames.files[frames.file[row]], frames.modules[frames.module[row]], frames.full[row]]);
}
