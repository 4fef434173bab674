// The worker's answer for the view of limits.

export const LIMIT_CALLS = {
  /** Peaks of devices, and the rows of kernels, layers and ops with their shares of the limits. */
  limits: async (blocks, { block }) => (await blocks.get(block)).head,
};
