// The one clock of a profile: CLOCK_MONOTONIC nanoseconds, read as libc reads it, by the function that the kernel maps into each process.
// libc's own may be stood in front of (sanitizers, libfaketime), and needs thread-local memory where it fails. Safe in a handler.
#pragma once
#include <cstdint>
#include <ctime>

namespace aiflame {

// When recording begins: where the kernel's function will be found when the clock is first read. Without it, clocks are read by system calls.
void remember_clock() noexcept;
// The program has forbidden the instruction behind that function (prctl(PR_SET_TSC)), or will: from here on clocks are read by system calls.
void leave_clock_alone() noexcept;
bool clock_left_alone() noexcept;

uint64_t clock_ns(clockid_t clock) noexcept;
inline uint64_t now_ns() noexcept { return clock_ns(CLOCK_MONOTONIC); }
// The same by a system call: for the few times that every process needs, since the pages that the kernel's function lies in cost more.
uint64_t now_by_system_call_ns() noexcept;

}  // namespace aiflame
