// What the worker answers for the view flame.

export const FLAME_CALLS = {};
