// Calls of jitted functions → `jit_calls`, if they are outside of any other jitted function's call.
//
// CPython calls a jitted function through a pointer in the object. We replace the pointer by one to our function: the object, its type and its
// attributes stay as they are, and a call within another (while JAX traces) costs only the check of a flag.
#pragma once
#include "hooks/python/functions.hpp"

namespace aiflame::jax {

// Adds the functions of `_aiflame` for JAX. False: an exception is set.
bool add_python_functions(bridge::Object module) noexcept;

}  // namespace aiflame::jax
