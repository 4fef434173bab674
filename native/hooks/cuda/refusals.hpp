// Notes with advice for users if CUPTI refuses to sample or to count.
#pragma once
#include "hooks/cuda/cupti_api.hpp"

namespace aiflame::cuda {

// A note with the reason and the cure. `missing`: data, in the plural.
void tell_refused(const char* missing, CUptiResult result) noexcept;

}  // namespace aiflame::cuda
