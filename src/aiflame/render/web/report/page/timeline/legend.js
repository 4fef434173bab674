// The colours of sampled stacks, each with its share of the time of all threads; the shares add up to 100%.

import { SLICE } from "../../../kinds.js";
import { percent } from "../../../text.js";
import { element } from "../ui/dom.js";

const LABELS = { [SLICE.FUNCTION]: "running", [SLICE.WAITING]: "waiting" };

/** Nothing where no thread was seen to wait: then there is one colour. */
export function legendOf({ sampled }, colors) {
  const whole = sampled.reduce((sum, [, time]) => sum + time, 0);
  if (!sampled.some(([kind, time]) => kind === SLICE.WAITING && time > 0)) return [];
  return sampled.map(([kind, time]) => {
    const swatch = element("i", {});
    swatch.style.background = colors[kind][0];
    return element("li", { title: "Of the time of sampled threads, over the whole run" }, swatch, `${LABELS[kind]} `, element("b", {}, percent(time, whole)));
  });
}
