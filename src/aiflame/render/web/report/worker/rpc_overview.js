// The worker's answer for the first screen.

export const OVERVIEW_CALLS = {
  /** Its data in the scope that the page does not begin with. */
  "overview.other": async (blocks) => (await blocks.get("scope.other")).head,
};
