// Runs a function beside the process: in its memory, but with descriptors of its own. For what needs a descriptor where the program has
// taken them all: the limit is the process's, yet the child may close some of its copies and open files in their place.
#pragma once

namespace aiflame {

// Waits until `run` has returned. `run` makes system calls alone, and touches no thread-local. False where no process could be made. Safe in a
// handler; the program sees no child.
bool run_apart(void (*run)(void*) noexcept, void* argument) noexcept;

}  // namespace aiflame
