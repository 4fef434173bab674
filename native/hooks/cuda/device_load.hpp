// The load of each device, from the records of its kernels.
#pragma once
#include "hooks/cuda/device_choice.hpp"

#include <atomic>
#include <cstdint>

namespace aiflame::cuda {

void count_kernel(uint32_t device, uint32_t correlation, uint64_t start_ns, uint64_t end_ns) noexcept;

// Ends and begins the sampling of stalls where that pays (device_choice.hpp), and counting, which replaces it. For the worker, after it has asked
// CUPTI for records.
void choose_for_devices() noexcept;
// A new recording decides anew.
void forget_loads() noexcept;

// A call that may launch work has returned. Most find the flag set, and write nothing.
extern constinit std::atomic<bool> launched_since;
inline void note_launch() noexcept {
  if (!launched_since.load(std::memory_order_relaxed)) launched_since.store(true, std::memory_order_relaxed);
}

}  // namespace aiflame::cuda
