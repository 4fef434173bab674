// One number for everything that is cached about code, modules, Python's layers and frames: as long as it does not change, all of that is valid. It
// is one word so that a hook need not check each cache.
#pragma once
#include <atomic>
#include <cstdint>

namespace aiflame::generation {

alignas(64) inline constinit std::atomic<uint64_t> number{1};

// Never 0.
inline uint64_t current() noexcept { return number.load(std::memory_order_acquire); }

// Something that was cached is no longer valid.
inline void end() noexcept { number.fetch_add(1, std::memory_order_release); }

}  // namespace aiflame::generation
