"""The ranks of a parallel job: what each did with its time, who came last to collectives, and the critical path of a step."""
