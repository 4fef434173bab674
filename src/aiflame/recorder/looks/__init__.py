"""Looks at sleeping threads from outside, without a signal: their stacks are read from their process's memory. Standard library alone.

A sleeping thread changes neither its stack nor its Python frames, so they can be read while the kernel says that the thread has not run.

| module | subject |
| --- | --- |
| `kernel` | a thread's times and system call, by the kernel |
| `memory` | a process's memory, where every address may be wrong |
| `modules` | the files that a process has mapped as code |
| `unwind_rules` | the rule that leads from a native frame to its caller |
| `native_stack` | a thread's native frames |
| `interpreter` | a thread's Python frames |
| `writer` | tables of the spool for all of this |
| `process` | a thread's frames in one stack |
| `waits` | the choice of threads, and the share of a core for looks |
"""
