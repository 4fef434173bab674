// Calls of OpenCL's functions by the program → `calls` (with Feature TRACE_OPENCL).
#pragma once
#include "unwind/frames.hpp"

#include <cstdint>

namespace aiflame::opencl {

// Puts a tracing function before each function of the table that we know by name: the others stay as they are.
void trace_calls(const void** entries, uint32_t count) noexcept;

// Where the program called OpenCL, seen from a function of ours that `here` called: the tracing function, if there is one, leaves no frame.
const Registers& program_caller(const Registers& here) noexcept;

}  // namespace aiflame::opencl
