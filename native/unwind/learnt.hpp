// One generation number for all cached facts about code, modules, Python's layers and frames: while it does not change, all of them are valid. It
// is a single word, so that a hook need not check several.
#pragma once
#include <atomic>
#include <cstdint>

namespace aiflame::learnt {

alignas(64) inline constinit std::atomic<uint64_t> number{1};

// Never 0.
inline uint64_t stamp() noexcept { return number.load(std::memory_order_acquire); }

// Called when some cached fact is no longer valid.
inline void lost() noexcept { number.fetch_add(1, std::memory_order_release); }

}  // namespace aiflame::learnt
