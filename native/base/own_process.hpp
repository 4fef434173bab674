// Whether the collector's memory belongs to the calling process.
#pragma once
#include <cstdint>

namespace aiflame {

// False in a vfork child (or that of a raw clone): it uses its parent's memory, or memory that was not prepared for us.
bool own_process() noexcept;
// Makes the calling process the owner: the collector begins here.
void own_this_process() noexcept;
// Makes the child of a fork the owner. False after stay_in_process().
bool own_this_fork() noexcept;
// Its process id, read from the kernel once.
uint32_t own_process_id() noexcept;
// From here on own_process() is true without asking the kernel: nothing is recorded that a child could disturb.
void stay_in_process() noexcept;

}  // namespace aiflame
