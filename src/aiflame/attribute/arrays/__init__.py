"""Arithmetic on arrays that knows nothing of profiles: trees as arrays of parents, keys of rows, apportionment, look-ups, bins of time."""
