// One number for all that is learnt of code, modules, Python's layers and frames, and kept: while it is the same, all of that holds. It is one
// word so that a hook need not ask each.
#pragma once
#include <atomic>
#include <cstdint>

namespace aiflame::learnt {

alignas(64) inline constinit std::atomic<uint64_t> number{1};

// Never 0.
inline uint64_t stamp() noexcept { return number.load(std::memory_order_acquire); }

// Something does not hold any more.
inline void lost() noexcept { number.fetch_add(1, std::memory_order_release); }

}  // namespace aiflame::learnt
