#include "hooks/cuda_sampling.hpp"

namespace aiflame::cuda::sampling {

void context_created(CUcontext, uint32_t) noexcept {}
void context_ending(CUcontext) noexcept {}
uint64_t drain() noexcept { return 100'000'000; }
void stop() noexcept {}
void forget_rows() noexcept {}
void after_fork_child() noexcept {}

}  // namespace aiflame::cuda::sampling
