"""The ranks of a parallel job: a profile each, read as one."""
