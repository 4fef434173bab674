// The page's other thread: reads blocks and answers calls, so that the page itself never waits.

import { readBlock } from "./blocks.js";
import { FLAME_CALLS } from "./calls_flame.js";
import { SCOPE_CALLS } from "./calls_scope.js";
import { TIMELINE_CALLS } from "./calls_timeline.js";
import { TABLE_CALLS } from "./calls_tables.js";

/** Each call: (blocks, given) → answer, or {answer, transfer: [buffers]}. */
const CALLS = { ...FLAME_CALLS, ...SCOPE_CALLS, ...TIMELINE_CALLS, ...TABLE_CALLS };

const wanted = new Map();
const blocks = {
  /** A block, read once. */
  get(name) {
    if (!wanted.has(name)) {
      const entry = {};
      entry.promise = new Promise((resolve, reject) => Object.assign(entry, { resolve, reject }));
      wanted.set(name, entry);
      postMessage({ want: name });
    }
    return wanted.get(name).promise;
  },
};

self.onmessage = async ({ data }) => {
  if (data.block !== undefined) {
    const entry = wanted.get(data.block);
    if (data.error === undefined) readBlock(data.bytes).then(entry.resolve, entry.reject);
    else entry.reject(new Error(data.error));
    return;
  }
  try {
    const found = await CALLS[data.call](blocks, data.given);
    const whole = found !== null && typeof found === "object" && Array.isArray(found.transfer);
    postMessage({ id: data.id, answer: whole ? found.answer : found }, whole ? found.transfer : []);
  } catch (error) {
    postMessage({ id: data.id, error: String(error?.message ?? error) });
  }
};
