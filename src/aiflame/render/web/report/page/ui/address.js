// The shown view lives in the address: #view=flame&metric=gpu-time comes back when the link is opened, and with the back button.

export function readAddress(hash) {
  const { view = "", ...state } = Object.fromEntries(new URLSearchParams(hash.replace(/^#/, "")));
  return { view, state };
}

/** Empty values are left out. */
export function writeAddress(view, state) {
  const kept = new URLSearchParams({ view });
  for (const [key, value] of Object.entries(state)) {
    if (value !== "" && value !== undefined && value !== null && value !== false) kept.set(key, value === true ? "1" : String(value));
  }
  return `#${kept}`;
}
