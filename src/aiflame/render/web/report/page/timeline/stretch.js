// The stretch of time that is looked at, within a run: { begin, end }, in whole ns, as the address has them.

const SHORTEST = 1000; // ns across the picture
const BEYOND = 0.02; // of the run's length may be in view before and behind it

/** The allowed stretch that is nearest to the wished one. */
export function limited(begin, end, run) {
  if (begin === 0 && end === run) return { begin, end };
  const length = Math.min(Math.max(end - begin, SHORTEST), run * (1 + 2 * BEYOND));
  const slack = run * BEYOND;
  const from = Math.round(Math.max(-slack, Math.min((begin + end - length) / 2, run + slack - length)));
  return { begin: from, end: from + Math.round(length) };
}

/** So much longer, about a moment in it, or its middle. */
export function zoomed({ begin, end }, factor, about, run) {
  const fixed = about >= begin && about <= end ? about : (begin + end) / 2;
  const length = Math.max(SHORTEST, (end - begin) * factor);
  const from = fixed - ((fixed - begin) / (end - begin)) * length;
  return limited(from, from + length, run);
}

/** With some room on either side. */
export function around(begin, end, run) {
  const margin = begin === 0 && end === run ? 0 : (end - begin) * 0.03;
  return limited(begin - margin, end + margin, run);
}
