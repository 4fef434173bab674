// The one clock of a profile: CLOCK_MONOTONIC nanoseconds, read through the vdso (safe in a signal handler).
#pragma once
#include <cstdint>
#include <ctime>

namespace aiflame {

inline uint64_t clock_ns(clockid_t clock) noexcept {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

inline uint64_t now_ns() noexcept { return clock_ns(CLOCK_MONOTONIC); }

}  // namespace aiflame
