"""Arithmetic on arrays, independent of profiles: trees as arrays of parents, keys of rows, apportionment, look-ups, bins of time."""
