// The page's other thread: reads blocks and answers calls, so that the page itself never waits.

import { readBlock } from "../../blocks.js";
import { CODE_CALLS } from "./rpc_code.js";
import { FLAME_CALLS } from "./rpc_flame.js";
import { LIMIT_CALLS } from "./rpc_limits.js";
import { MEMORY_CALLS } from "./rpc_memory.js";
import { OVERVIEW_CALLS } from "./rpc_overview.js";
import { RANK_CALLS } from "./rpc_ranks.js";
import { SCOPE_CALLS } from "./rpc_scope.js";
import { TABLE_CALLS } from "./rpc_tables.js";
import { TIMELINE_CALLS } from "./rpc_timeline.js";

/** Each call: (blocks, given) → answer, or {answer, transfer: [buffers]}. */
const CALLS = { ...FLAME_CALLS, ...SCOPE_CALLS, ...TIMELINE_CALLS, ...CODE_CALLS, ...TABLE_CALLS, ...RANK_CALLS, ...LIMIT_CALLS, ...MEMORY_CALLS, ...OVERVIEW_CALLS };

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
    const failed = (error) => {
      wanted.delete(data.block); // a server may give it when asked again
      entry.reject(error);
    };
    const damaged = (error) => failed(new Error(`the report's data ${data.block} is damaged: ${error.message}`));
    if (data.error === undefined) readBlock(data.bytes).then(entry.resolve, damaged);
    else failed(new Error(data.error));
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
