// The clock of a profile: CLOCK_MONOTONIC in nanoseconds, read as libc does, with the function that the kernel maps into each process. libc's own
// function may be replaced (sanitizers, libfaketime), and needs thread-local memory when it fails. Safe in a handler.
#pragma once
#include <cstdint>
#include <ctime>

namespace aiflame {

// Called when recording begins: stores where the kernel's function is found at the first reading. Without it, the clock is read by system calls.
void remember_clock() noexcept;
// Called when the program has forbidden the instruction behind that function (prctl(PR_SET_TSC)), or is about to: from then on the clock is read by
// system calls.
void leave_clock_alone() noexcept;
bool clock_left_alone() noexcept;

uint64_t clock_ns(clockid_t clock) noexcept;
inline uint64_t now_ns() noexcept { return clock_ns(CLOCK_MONOTONIC); }
// Reads the clock by a system call. It is for the few readings that every process needs, since touching the pages of the kernel's function costs
// more.
uint64_t now_by_system_call_ns() noexcept;

}  // namespace aiflame
