"""A profile as a timeline: tracks, slices, counters and their facts, of the whole profile or of a stretch of time."""
