// Answers for views: every question goes to the worker, which alone reads blocks.

import { fromBase64 } from "../../../blocks.js";

export class Data {
  #worker;
  #waiting = new Map();
  #asked = 0;
  #dead = null;
  #changed;

  /** @param {(count: number) => void} changed so many questions are open */
  constructor(changed = () => {}) {
    this.#changed = changed;
    const source = document.getElementById("worker").textContent;
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    this.#worker = new Worker(address);
    this.#worker.onmessage = ({ data }) => this.#heard(data);
    this.#worker.onerror = (event) => this.#failed(new Error(event.message || "the page's worker cannot start"));
    this.#worker.onmessageerror = () => this.#failed(new Error("the page's worker sent unreadable data"));
  }

  /** The answer to a call of the worker's. */
  ask(call, given = {}) {
    if (this.#dead) return Promise.reject(this.#dead);
    const id = ++this.#asked;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, call, given });
      this.#changed(this.#waiting.size);
    });
  }

  #heard(message) {
    if (message.want !== undefined) {
      this.#deliver(message.want);
      return;
    }
    const { resolve, reject } = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    this.#changed(this.#waiting.size);
    if (message.error === undefined) resolve(message.answer);
    else reject(new Error(message.error));
  }

  async #deliver(name) {
    try {
      const bytes = await blockBytes(name);
      this.#worker.postMessage({ block: name, bytes }, [bytes.buffer]);
    } catch (error) {
      this.#worker.postMessage({ block: name, error: String(error.message ?? error) });
    }
  }

  #failed(error) {
    this.#dead = error;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    this.#changed(0);
  }
}

/** The data of the first screen: in the page, or from the page's server. */
export async function firstScreen() {
  return inlineSummary() ?? JSON.parse(await (await fetched("blocks/summary")).text());
}

/** Whether the page has a server, which reads the profile on request. */
export function isServed() {
  return inlineSummary() === null;
}

/** A stretch of the timeline, read again: [begin, end) in ns after the system's start. */
export async function readCloser({ begin, end }, signal) {
  return new Uint8Array(await (await fetched(`closer?begin=${begin}&end=${end}`, signal)).arrayBuffer());
}

function inlineSummary() {
  return JSON.parse(document.getElementById("summary").textContent);
}

async function blockBytes(name) {
  await parsed();
  const inline = document.querySelector(`script.block[data-name="${CSS.escape(name)}"]`);
  if (inline) {
    const bytes = fromBase64(inline.textContent);
    inline.textContent = ""; // the worker keeps the blocks that it has read
    return bytes;
  }
  if (location.protocol === "file:") {
    throw new Error(`this file has no data called ${name}: it is cut short, or was changed; write it again`);
  }
  return new Uint8Array(await (await fetched(`blocks/${encodeURIComponent(name)}`)).arrayBuffer());
}

async function fetched(path, signal = undefined) {
  let answer;
  try {
    answer = await fetch(path, { signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Error("aiflame open does not answer any more: start it again, and open the address that it prints");
  }
  if (!answer.ok) throw new Error((await answer.text()).slice(0, 1000) || `the report's data ${path} cannot be read: ${answer.status}`);
  return answer;
}

/** Blocks lie behind the script, so that the first screen need not wait for them. */
function parsed() {
  if (document.readyState !== "loading") return Promise.resolve();
  return new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve, { once: true }));
}
