// Samples as rows: stall reasons and functions once, then windows and their samples.
#pragma once
#include "hooks/cuda/sampling_session.hpp"

#include <cstdint>

namespace aiflame::cuda::sampling {

struct Window {
  uint32_t device;  // its number
  uint32_t period;
  uint64_t begin_ns, end_ns;
};

// From any thread.
void write_window(const Window& window, const Reasons& reasons, const Samples& samples) noexcept;

// A new recording has empty tables.
void forget_written() noexcept;

}  // namespace aiflame::cuda::sampling
