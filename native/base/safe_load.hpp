// Loads from addresses that may not be mapped: a fault becomes a default value.
//
// Needs the SIGSEGV/SIGBUS handler of sampler/signals.hpp; before install() the load is a plain one. A load is one instruction,
// inlined: each leaves an entry in a table of our own section, which the handler searches.
#pragma once
#include <cstdint>

namespace aiflame {

inline uint64_t safe_load(uint64_t address, uint64_t fallback = 0) noexcept {
  uint64_t value = fallback;
  asm volatile(
      "1: mov (%1), %0\n"
      "2:\n"
      ".pushsection aiflame_loads, \"a?\", @progbits\n"
      ".balign 4\n"
      ".long 1b - ., 2b - 1b\n"
      ".popsection"
      : "+r"(value)
      : "r"(address));
  return value;
}

// If `pc` is the faulting load, the pc at which to continue (with the fallback as the result); else 0.
uint64_t safe_load_resume(uint64_t pc) noexcept;

}  // namespace aiflame
