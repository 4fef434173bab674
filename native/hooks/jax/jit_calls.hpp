// Calls of jitted functions → `jit_calls`: those that lie in no other jitted function's call.
//
// CPython calls a jitted function through a pointer in the object, which we lead to a function of ours: the object, its type and its attributes stay
// as they are, and a call within another (while JAX traces) costs one look at a flag.
#pragma once
#include "hooks/python/functions.hpp"

namespace aiflame::jax {

// Functions of `_aiflame` that concern JAX alone. False: an exception is set.
bool add_python_functions(bridge::Object module) noexcept;

}  // namespace aiflame::jax
