"""Reads all threads' stacks of a process at this moment, and the reasons of their waits. Nothing is loaded into the process.

A thread that sleeps is read without stopping it, as the recorder's looks do (`recorder/looks`): the kernel says that it has not run
meanwhile. Only a thread that runs is stopped, for as long as its registers and stack are copied.

| module | subject |
| --- | --- |
| `target` | the process: which it is, whether it can be read, its threads, its files |
| `stopping` | stops one thread, for its registers |
| `native_frames` | a thread's native frames, from its registers |
| `static_rules` | rules for the frames of a static program |
| `layouts` | offsets in the objects of an interpreter that nobody prepared |
| `python_frames` | finds the interpreter, its threads and their frames |
| `objects` | Python objects in the process's memory: types, names of threads |
| `capture` | the two kinds of frames of each thread, as one stack |
| `names` | names of native functions |
| `calls`, `sockets` | the wait of a system call |
| `locks` | the lock of a wait and its holder |
| `described` | the threads of a process, with all of this |
| `deadlocks` | threads that wait for one another |
| `ranks` | comparison of several processes of a job |
| `text` | for people |
"""
