"""The ranks of a parallel job: how each spent its time, which came last to collectives, and the critical path of a step."""
