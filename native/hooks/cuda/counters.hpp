// Hardware counters of each device: bytes that its memory moved, cycles in which its tensor cores worked … They count over the whole device all the
// time; kernels run as they would without them, and launches cost no more. Results: `gpu_counters`.
//
// A device either counts or has its warps sampled (sampling.hpp), never both: CUPTI would then fetch no samples and lose the records of kernels.
#pragma once
#include <cstdint>

namespace aiflame::cuda::counters {

// Sets whether the device is to count. The worker begins and ends counting at its next read().
void want(uint32_t device, bool wanted) noexcept;
// True while the device counts, and until that has ended.
bool busy(uint32_t device) noexcept;

// Writes the counts of all devices as rows, and returns the time until the next read, in ns. Only for the worker, outside of callbacks.
uint64_t read() noexcept;

// Writes the last values, and ends. The worker must have ended before.
void stop() noexcept;

// The counts belong to the parent.
void after_fork_child() noexcept;

}  // namespace aiflame::cuda::counters
