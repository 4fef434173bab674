#include "hooks/torch_autograd.hpp"

namespace aiflame::torch_autograd {

Point now() noexcept { return {}; }
Point next() noexcept { return {}; }

void calibrate(uint64_t, uint64_t, uint64_t) noexcept {}

}  // namespace aiflame::torch_autograd
