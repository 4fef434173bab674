// The sampled mappings that the program has not unmapped. A program may unmap any part of them. Takes no lock.
#pragma once
#include "memory/collector.hpp"
#include "records/host_memory.hpp"

#include <atomic>
#include <cstdint>

namespace aiflame::memory::mapped {

// Number of places that may be in use.
extern std::atomic<uint32_t> used;

// A note is written where there is no room: the mapping's end will not be seen.
void add(uint64_t address, uint64_t bytes, host_memory::Row row) noexcept;

// The sample is these bytes from then on.
void keep(host_memory::Row row, uint64_t begin, uint64_t end, uint64_t time_ns) noexcept;

// The program unmaps these bytes, or maps others there. Parts of samples that remain become samples of their own at the same moment, so that
// no byte counts twice. The sample that the first byte was in; 0: none. Call it only if some places are used: then the collector is there.
host_memory::Row cut(uint64_t address, uint64_t bytes, uint64_t time_ns) noexcept;

inline void cut_if_any(uint64_t address, uint64_t bytes) noexcept {
  if (used.load(std::memory_order_relaxed)) [[unlikely]]
    cut(address, bytes, collector::interface()->now());
}

}  // namespace aiflame::memory::mapped
