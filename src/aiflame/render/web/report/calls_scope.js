// What the worker answers for the view scope.

export const SCOPE_CALLS = {};
