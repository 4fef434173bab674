// What the worker answers for the view code.

export const CODE_CALLS = {};
