// The functions of `_aiflame` for torch.
#pragma once
#include "hooks/python/functions.hpp"

namespace aiflame::torch {

// False: an exception is set.
bool add_python_functions(bridge::Object module) noexcept;

}  // namespace aiflame::torch
