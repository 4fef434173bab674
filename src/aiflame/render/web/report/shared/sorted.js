// Finding in sorted values.

/** The first place in [from, to) whose value is not below `wanted`. */
export function lowerBound(values, wanted, from = 0, to = values.length) {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}
