// The sampled blocks that the program has not freed, by their addresses. Takes no lock; its memory is never freed.
#pragma once
#include "records/host_memory.hpp"

#include <atomic>
#include <cstdint>

namespace aiflame::memory::sampled {

// For each page, or pages that share a place, the number of sampled blocks that begin there. Neighbouring pages are neighbours here, so that a free
// reads memory that the one before it has just read.
constexpr uint32_t kPlaces = 1 << 16;
extern std::atomic<uint8_t> blocks_at[kPlaces];

inline uint32_t place_of(uint64_t address) noexcept { return static_cast<uint32_t>(address >> 12 ^ address >> 28) % kPlaces; }

// False for almost every block that is not in the table.
inline bool may_have(const void* block) noexcept {
  return blocks_at[place_of(reinterpret_cast<uint64_t>(block))].load(std::memory_order_relaxed) != 0;
}

// The row of an earlier block there, whose end was not seen; 0: there was none. False in `kept`: there is no room, so the block's end will not be
// seen.
host_memory::Row add(const void* block, host_memory::Row row, bool* kept) noexcept;

// Its row, 0 if it is not in the table.
host_memory::Row remove(const void* block) noexcept;

}  // namespace aiflame::memory::sampled
