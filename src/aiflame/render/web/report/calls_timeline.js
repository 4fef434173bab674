// What the worker answers for the view timeline.

export const TIMELINE_CALLS = {};
