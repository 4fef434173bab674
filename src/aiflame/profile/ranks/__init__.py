"""The ranks of a parallel job: a profile for each, and all of them as one."""
