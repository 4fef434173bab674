// Continuous sampling of what warps wait for, per context.
#pragma once
#include "hooks/cuda_api.hpp"

#include <cstdint>

namespace aiflame::cuda::sampling {

void context_created(CUcontext context, uint32_t device) noexcept;
void context_ending(CUcontext context) noexcept;
uint64_t drain() noexcept;
void stop() noexcept;
void forget_rows() noexcept;
void after_fork_child() noexcept;

}  // namespace aiflame::cuda::sampling
