// The state of the view, which lives in the address: #x=12&s=gemm comes back when the link is opened, and with the back button.

/** @type {Record<string, {key: string, none: any, read: (text: any) => any, write: (value: any) => string}>} */
const FIELDS = {
  zoom: { key: "x", none: 0, read: Number, write: String },
  search: { key: "s", none: "", read: String, write: String },
  matchCase: { key: "c", none: false, read: Boolean, write: () => "1" },
  lit: { key: "k", none: [], read: numbers, write: String },
  hidden: { key: "h", none: [], read: numbers, write: String },
  byWidth: { key: "o", none: false, read: Boolean, write: () => "width" },
  flipped: { key: "f", none: false, read: Boolean, write: () => "1" },
  metric: { key: "w", none: 0, read: Number, write: String },
  theme: { key: "t", none: "", read: String, write: String },
};

/** @typedef {{zoom: number, search: string, matchCase: boolean, lit: number[], hidden: number[], byWidth: boolean, flipped: boolean,
 *   metric: number, theme: string}} State */

/**
 * @param {string} address
 * @param {import("./file.js").FlameFile} file
 * @returns {State}
 */
export function readState(address, file) {
  const given = new URLSearchParams(address.replace(/^#/, ""));
  /** @type {any} */
  const state = {};
  for (const [name, { key, none, read }] of Object.entries(FIELDS)) state[name] = given.has(key) ? read(given.get(key)) : none;
  if (!Number.isInteger(state.zoom) || state.zoom < 0 || state.zoom >= file.tree.count) state.zoom = 0;
  if (!(state.metric in file.head.metrics)) state.metric = 0;
  return state;
}

export function writeState(/** @type {any} */ state) {
  const kept = new URLSearchParams();
  for (const [name, { key, none, write }] of Object.entries(FIELDS)) {
    if (String(state[name]) !== String(none)) kept.set(key, write(state[name]));
  }
  return `#${kept}`;
}

function numbers(/** @type {string} */ text) {
  return text.split(",").filter(Boolean).map(Number).filter(Number.isInteger);
}
