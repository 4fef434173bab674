// Runs a function in a child that shares the process's memory but has its own descriptors. For work that needs a descriptor when the program has
// used them all: the limit is per process, but the child may close some of its copies and open files in their place.
#pragma once

namespace aiflame {

// Waits until `run` has returned. `run` makes only system calls, and touches no thread-local. False when no process could be made. Safe in a
// handler; the program sees no child.
bool run_apart(void (*run)(void*) noexcept, void* argument) noexcept;

}  // namespace aiflame
