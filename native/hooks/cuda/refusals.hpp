// What a user can do where CUPTI refuses to sample or to count.
#pragma once
#include "hooks/cuda/cupti_api.hpp"

namespace aiflame::cuda {

// A note: `what` is missing, why, and how to mend it. `what`: in the plural.
void tell_refused(const char* what, CUptiResult result) noexcept;

}  // namespace aiflame::cuda
