// Whether this is the process that the collector's memory is of.
#pragma once
#include <cstdint>

namespace aiflame {

// False in a vfork child (or one of a raw clone): its memory is its parent's, or nobody prepared it for us.
bool own_process() noexcept;
// The calling process is it: the collector begins here.
void own_this_process() noexcept;
// The child of a fork is it from here on. False after stay_in_process().
bool own_this_fork() noexcept;
// Its number, asked of the kernel once.
uint32_t own_process_id() noexcept;
// From here on own_process() is true, and asks the kernel nothing: nothing is recorded that a child could disturb.
void stay_in_process() noexcept;

}  // namespace aiflame
