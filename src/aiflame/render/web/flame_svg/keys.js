// The keys that a flame graph in a file has beside those of every flame graph.

import { HELP, onKey } from "../flame/keys.js";

/** @type {[string, string][]} */
export const KEYS = [
  ...HELP,
  ["Ctrl F", "search"],
  ["m", "match case, or not"],
  ["o", "order by width, or by name"],
  ["b", "differential: widths by the base, or by the new profile"],
  ["d", "dark or light"],
  ["h, ?", "this help"],
];

/** @type {Record<string, (app: any) => void>} */
const OWN = {
  h: (app) => app.showHelp(),
  "?": (app) => app.showHelp(),
  d: (app) => app.theme(),
  o: (app) => app.order(),
  m: (app) => app.matchCase(),
  b: (app) => app.metric(),
};

/**
 * @param {any} app
 * @param {any} event
 */
export function pressed(app, event) {
  const { ctrlKey, metaKey, altKey, key, target } = event;
  // A second Ctrl F is the browser's own.
  if ((ctrlKey || metaKey) && key === "f" && target !== app.header.search) {
    event.preventDefault();
    app.focusSearch();
    return;
  }
  if (ctrlKey || metaKey || altKey || target.localName === "input") return;
  if (onKey(app, event, OWN)) event.preventDefault();
}
