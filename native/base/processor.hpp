// Reads facts from the processor itself, without a system call, for ticks.
#pragma once
#include <cstdint>

namespace aiflame {

// False if the kernel has forbidden the instruction behind clock_gettime(), as prctl(PR_SET_TSC) does, and strict seccomp as a step of its own.
// Reading the clock, or making a system call, would then end the program. The instruction may fault: see safe_load.
inline bool clock_is_readable() noexcept {
  uint64_t low = 0, high = ~0ull;
  asm volatile(
      "1: rdtsc\n"
      "2:\n"
      ".pushsection aiflame_loads, \"a?\", @progbits\n"
      ".balign 4\n"
      ".long 1b - ., 2b - 1b\n"
      ".popsection"
      : "+a"(low), "+d"(high));
  return high != ~0ull;
}

// The processor on which the caller runs: the limit of a segment that Linux keeps for this in each processor's table (the vdso's getcpu reads the
// same).
inline uint32_t processor() noexcept {
  constexpr uint32_t kSegment = 15 * 8 + 3, kProcessorBits = 12;
  uint32_t limit = 0;
  asm("lsl %1, %0" : "+r"(limit) : "r"(kSegment) : "cc");
  return limit & ((1u << kProcessorBits) - 1);
}

}  // namespace aiflame
