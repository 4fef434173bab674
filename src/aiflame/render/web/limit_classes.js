// Classes of a share of the device's limit, from far to near.

export const CLASSES = ["below 20%", "20 to 40%", "40 to 60%", "60 to 80%", "80% or more"];

/** The class of a share: a place in CLASSES. */
export function classOf(/** @type {number} */ share) {
  return Math.min(CLASSES.length - 1, Math.floor(share * CLASSES.length));
}
