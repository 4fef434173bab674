// Samples of the program's host memory → `host_allocations`, `host_frees`; and allocations that failed → `memory_refusals`.
//
// native/memory/ decides which allocations are sampled and remembers their addresses; it looks this interface up by name: aiflame_host_memory()
// returns it.
#pragma once
#include "unwind/frames.hpp"

#include <cstdint>
#include <string_view>

namespace aiflame::host_memory {

// A sampled allocation.
struct Sample {
  schema::HostMemoryKind kind;
  uint64_t address, bytes, weight;
};

// A row of `host_allocations`: the number of the recording, and the row's. 0: none.
using Row = uint64_t;

struct Interface {
  // Bytes allocated for each sample, on average; 0: nothing is recorded now.
  uint64_t (*every)() noexcept;
  Row (*taken)(const Registers& caller, const Sample& sample) noexcept;
  void (*released)(Row row, uint64_t time_ns) noexcept;
  // From then on a sample is `bytes` at `address`; returns their row.
  Row (*remains)(Row row, uint64_t address, uint64_t bytes, uint64_t time_ns) noexcept;
  void (*refused)(const Registers& caller, uint64_t bytes) noexcept;
  uint64_t (*now)() noexcept;
  void (*note)(std::string_view text) noexcept;
};

// A recording begins in this process. A note is written where the library is missing, or sees only a part of the memory.
void start() noexcept;

// A new recording has empty tables.
void forget_rows() noexcept;

}  // namespace aiflame::host_memory
