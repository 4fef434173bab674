// Comma-separated values as RFC 4180 has them, safe to open in a spreadsheet.

const ACTIVE = /^[=+\-@\t\r]/; // a spreadsheet would run such a text as a formula

export function csvOf(head, rows) {
  const lines = [head.map(field).join(",")];
  for (const row of rows) lines.push(row.map(field).join(","));
  return `${lines.join("\r\n")}\r\n`;
}

function field(value) {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = ACTIVE.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
