// Knows whether the collector's memory belongs to the calling process.
#pragma once
#include <cstdint>

namespace aiflame {

// False in a vfork child (or in that of a raw clone): it uses its parent's memory, or memory that was not prepared for it.
bool own_process() noexcept;
// Makes the calling process the owner: the collector begins in it.
void own_this_process() noexcept;
// Makes the child of a fork the owner. False after stay_in_process().
bool own_this_fork() noexcept;
// The owner's process id, read from the kernel once.
uint32_t own_process_id() noexcept;
// From now on own_process() is true without asking the kernel, because nothing is recorded that a child could disturb.
void stay_in_process() noexcept;

}  // namespace aiflame
