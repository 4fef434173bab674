// Calls of OpenCL's functions by the program → `calls` (with Feature TRACE_OPENCL).
#pragma once
#include "unwind/frames.hpp"

#include <cstdint>

namespace aiflame::opencl {

// Replaces entries of a table of functions by our tracing functions. Other entries stay.
void trace_calls(const void** entries, uint32_t count) noexcept;

// The registers at the program's call of OpenCL, if a tracing function was called by the program and called `here`; else `here`.
const Registers& program_caller(const Registers& here) noexcept;

}  // namespace aiflame::opencl
