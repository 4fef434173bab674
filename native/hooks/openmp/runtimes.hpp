// The runtimes with libgomp's entry points in this process: a wheel may bring its own beside the system's, and a caller's calls must reach the one to
// which it was linked.
#pragma once
#include <cstdint>

namespace aiflame::openmp {

enum Entry : uint32_t {
  PARALLEL,
  REDUCTIONS,
  SECTIONS,
  LOOP_STATIC,
  LOOP_DYNAMIC,
  LOOP_GUIDED,
  LOOP_RUNTIME,
  LOOP_NONMONOTONIC_DYNAMIC,
  LOOP_NONMONOTONIC_GUIDED,
  LOOP_NONMONOTONIC_RUNTIME,
  LOOP_MAYBE_NONMONOTONIC_RUNTIME,
  ENTRIES,
};

extern const char* const kEntryNames[ENTRIES];

struct Runtime {
  void* functions[ENTRIES];
  uint64_t low, high;  // its code
  bool llvm;           // LLVM's or Intel's, which may report more through OMPT
};

// The runtime behind a call that returns to `caller`; nullptr if there is none. Takes a few ns from the second time on.
const Runtime* runtime_of(uint64_t caller) noexcept;

}  // namespace aiflame::openmp
