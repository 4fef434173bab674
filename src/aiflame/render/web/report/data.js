// What views ask for: every question goes to the worker, which alone reads blocks.

import { fromBase64 } from "./blocks.js";

export class Data {
  #worker;
  #waiting = new Map();
  #asked = 0;

  constructor() {
    const source = document.getElementById("worker").textContent;
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    this.#worker = new Worker(address);
    this.#worker.onmessage = ({ data }) => this.#heard(data);
    this.#worker.onerror = (event) => this.#failed(new Error(event.message || "the page's worker cannot start"));
  }

  /** The answer to a call of the worker's. */
  ask(call, given = {}) {
    const id = ++this.#asked;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, call, given });
    });
  }

  #heard(message) {
    if (message.want !== undefined) {
      this.#deliver(message.want);
      return;
    }
    const { resolve, reject } = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
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
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

/** Names of the blocks that this page has. */
export function blockNames() {
  return JSON.parse(document.getElementById("blocks").textContent);
}

async function blockBytes(name) {
  const inline = document.querySelector(`script.block[data-name="${CSS.escape(name)}"]`);
  if (inline) {
    const bytes = fromBase64(inline.textContent);
    inline.textContent = ""; // the worker keeps what it has read
    return bytes;
  }
  const answer = await fetch(`blocks/${encodeURIComponent(name)}`);
  if (!answer.ok) throw new Error(`the report's data ${name} cannot be read: ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}
