// Hardware counters of each device: bytes that its memory moved, cycles in which its tensor cores worked … They count over the whole
// device all the time, kernels run as they would without it, and a launch costs no more. Results: `gpu_counters`.
//
// A device counts, or its warps are sampled (sampling.hpp), never both: CUPTI then fetches no samples and loses the records of
// kernels.
#pragma once
#include <cstdint>

namespace aiflame::cuda::counters {

// Whether the device is to count. The worker begins and ends it, at its next read().
void want(uint32_t device, bool wanted) noexcept;
// It counts, or has not ended yet.
bool busy(uint32_t device) noexcept;

// Writes the counts of all devices as rows. Returns the time until the next read, in ns. From the worker alone, outside of callbacks.
uint64_t read() noexcept;

// Writes the last values, and ends. The worker has ended before.
void stop() noexcept;

// The counts belong to the parent.
void after_fork_child() noexcept;

}  // namespace aiflame::cuda::counters
