// Comma-separated values as RFC 4180 has them, safe to open in a spreadsheet: as exchange/writers/csv.py writes them.

import { plainText } from "../../plain_text.js";

const FORMULA = /^[\s\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]/; // a spreadsheet would run such a text

export function csvOf(head, rows) {
  const lines = [head.map(field).join(",")];
  for (const row of rows) lines.push(row.map(field).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

function field(value) {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const plain = plainText(value);
  const text = FORMULA.test(plain) ? `'${plain}` : plain;
  return /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
