// The worker's answers for the view tables: `tables` (the list), `table` (one, sorted and filtered: how many rows), `rows` (some of those rows),
// `csv` (all of them, as text). Other views have tables in a block of their own (`block`).

import { readChoices } from "../shared/frame_choices.js";
import { csvOf } from "./csv.js";

const SAMPLED = 400; // rows by which a column's width is chosen
const collator = new Intl.Collator("en", { numeric: true });
const ordered = new Map(); // table, sort and filter → rows; the latest few

export const TABLE_CALLS = {
  async tables(blocks, { block = "tables" } = {}) {
    const { head, columns } = await blocks.get(block);
    return head.tables.map((table) => ({
      ...table,
      columns: table.columns.map((column) => ({ ...column, ...reach(column, columns[`${table.name}.${column.name}`]) })),
    }));
  },

  async table(blocks, given) {
    const { table, columns } = await tableOf(blocks, given);
    const rows = order(table, columns, given);
    const share = table.columns.find((column) => column.kind === "share");
    return { count: rows.length, share: share ? sum(columns[`${table.name}.${share.name}`], rows, share.scale) : null };
  },

  async rows(blocks, given) {
    const { table, columns } = await tableOf(blocks, given);
    const rows = order(table, columns, given).subarray(given.from, given.to);
    return Array.from(rows, (row) => table.columns.map((column) => value(column, columns[`${table.name}.${column.name}`], row)));
  },

  async csv(blocks, given) {
    const { table, columns } = await tableOf(blocks, given);
    const rows = order(table, columns, given);
    const head = table.columns.map(({ label, unit }) => (unit ? `${label} (${unit})` : label));
    const values = function* () {
      for (const row of rows) yield table.columns.map((column) => value(column, columns[`${table.name}.${column.name}`], row));
    };
    return csvOf(head, values());
  },
};

async function tableOf(blocks, { block = "tables", table: name }) {
  const { head, columns } = await blocks.get(block);
  const table = head.tables.find((one) => one.name === name);
  if (!table) throw new Error(`this report has no table called ${name}`);
  return { table, columns };
}

/** The text, or the number; null where there is none. */
function value(column, values, row) {
  if (column.scale === 0) return values[row];
  return values[row] === 0 ? null : (values[row] - 1) / column.scale;
}

/** Rows that match, in order. `sort`: a column's name, with `-` before it the largest first; "" as the table came. `only`: names of which a
 *  row must have one in `column`, or be inside of it. */
function order(table, columns, { block = "", sort = "", filter = "", column = "", only = "" }) {
  const key = JSON.stringify([block, table.name, sort, filter, column, only]);
  if (!ordered.has(key)) {
    if (ordered.size > 8) ordered.delete(ordered.keys().next().value);
    ordered.set(key, sorted(table, columns, sort, named(matching(table, columns, filter), columns[`${table.name}.${column}`], only)));
  }
  return ordered.get(key);
}

function matching(table, columns, filter) {
  const rows = new Uint32Array(table.rows);
  const texts = table.columns.filter((column) => column.scale === 0).map((column) => columns[`${table.name}.${column.name}`]);
  const matches = matcher(filter);
  let count = 0;
  for (let row = 0; row < table.rows; row++) if (texts.some((values) => matches(values[row])) || filter === "") rows[count++] = row;
  return rows.slice(0, count);
}

function named(rows, texts, only) {
  const names = readChoices(only).map((one) => one.text);
  if (!texts || !names.length) return rows;
  return rows.filter((row) => names.some((name) => texts[row] === name || texts[row].startsWith(`${name}.`)));
}

/** A part of the text, or a regular expression that finds it; upper and lower case are the same. */
function matcher(filter) {
  const part = filter.toLowerCase();
  let expression = null;
  try {
    expression = new RegExp(filter, "i");
  } catch {
    // no expression: a part of the text
  }
  return (text) => text.toLowerCase().includes(part) || expression?.test(text);
}

function sorted(table, columns, sort, rows) {
  const down = sort.startsWith("-");
  const column = table.columns.find((one) => one.name === sort.replace(/^-/, ""));
  if (!column) return rows;
  const values = columns[`${table.name}.${column.name}`];
  const turned = down ? -1 : 1;
  const empty = column.scale === 0 ? "" : 0; // these come last, whichever way
  const compare = column.scale === 0 ? (one, other) => collator.compare(one, other) : (one, other) => one - other;
  return rows.sort((one, other) => {
    const [first, second] = [values[one], values[other]];
    if (first === empty || second === empty) return Number(first === empty) - Number(second === empty) || one - other;
    return turned * compare(first, second) || one - other;
  });
}

/** How much a column has to show: its longest text, its largest number, and whether there is anything at all. */
function reach(column, values) {
  let longest = 0;
  let most = 0;
  let filled = false;
  for (let row = 0; row < values.length; row++) {
    if (column.scale === 0) {
      if (values[row] === "") continue;
      filled = true;
      if (row < SAMPLED) longest = Math.max(longest, shown(column, values[row]).length);
      else break;
    } else if (values[row] > 0) {
      filled ||= values[row] > 1; // a column of zeros says nothing
      most = Math.max(most, (values[row] - 1) / column.scale);
    }
  }
  return { longest, most, filled };
}

function shown({ kind }, text) {
  return kind === "place" ? text.slice(text.lastIndexOf("/") + 1) : text;
}

function sum(values, rows, scale) {
  let total = 0;
  for (const row of rows) total += Math.max(values[row] - 1, 0);
  return total / scale;
}
