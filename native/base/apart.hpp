// Runs a function in a child that shares the process's memory but has its own descriptors. It is for work that needs a descriptor when the program
// has used them all: the limit is per process, but the child may close some of its copies and open files instead.
#pragma once

namespace aiflame {

// Waits until `run` has returned. `run` may make only system calls, and must not touch thread-locals. False if no process could be made. Safe in a
// handler; the program sees no child.
bool run_apart(void (*run)(void*) noexcept, void* argument) noexcept;

}  // namespace aiflame
