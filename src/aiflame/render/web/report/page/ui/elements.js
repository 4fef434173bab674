// Buttons, choices and tables that several views have.

import { element } from "./dom.js";

export function button(text, act, title = "") {
  return element("button", { type: "button", title, onclick: act }, text);
}

/** A choice with a label; `options`: [value, text]. */
export class Choice {
  constructor(label, act) {
    this.select = element("select", { onchange: () => act(this.select.value) });
    this.body = element("label.choice", {}, element("span", {}, label), this.select);
  }

  /** Nothing to choose from is not shown. */
  offer(options, chosen) {
    this.select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
    this.select.value = String(chosen);
    this.body.hidden = options.length < 2;
  }
}

const NUMBER = /^<?[\d.,]+( ?%| [\wµ]{1,7})?$/;

/** A table with a heading, its rows of texts; numbers stand at the right. */
export function table(heads, rows) {
  const cells = (tag, row) => row.map((text, place) => element(`${tag}${isNumber(rows, place) ? ".number" : ""}`, { title: text }, text));
  const head = element("thead", {}, element("tr", {}, ...cells("th", heads)));
  return element("table", {}, head, element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells("td", row)))));
}

function isNumber(rows, place) {
  return place > 0 && rows.every((row) => NUMBER.test(row[place]));
}
