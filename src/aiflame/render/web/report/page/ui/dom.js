// Making elements: text goes in as text, never as HTML.

/**
 * @template {string} Name
 * @typedef {Name extends `${infer Tag extends keyof HTMLElementTagNameMap}.${string}` ? HTMLElementTagNameMap[Tag]
 *   : Name extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[Name] : HTMLElement} Made the element of a tag with classes
 */

/**
 * element("button.icon", { type: "button", onclick: f }, "text", child): a tag with classes, its properties or attributes, and its content.
 * @template {string} Name
 * @param {Name} what
 * @param {Record<string, any>} given
 * @returns {Made<Name>}
 */
export function element(what, given = {}, ...content) {
  const [tag, ...classes] = what.split(".");
  const made = document.createElement(tag);
  if (classes.length) made.className = classes.join(" ");
  apply(made, given);
  made.append(...content.filter((one) => one !== null && one !== undefined && one !== false));
  return /** @type {Made<Name>} */ (made);
}

/** The same for SVG. */
export function drawn(tag, given = {}, ...content) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
  made.append(...content);
  return made;
}

function apply(made, given) {
  for (const [name, value] of Object.entries(given)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(made.dataset, value);
    else if (name in made && name !== "list") made[name] = value;
    else made.setAttribute(name, value);
  }
}

/** Lets a width be set where styles in attributes are refused. */
export function wide(made, share) {
  made.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return made;
}
