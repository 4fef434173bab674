// What the worker answers for the view tables.

export const TABLE_CALLS = {};
