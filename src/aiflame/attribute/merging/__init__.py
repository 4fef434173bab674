"""Two recordings of one program become one: the second's hardware counters, for the launches of the first."""
