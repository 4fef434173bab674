// Shapes of launched kernels: a program uses the same few again and again, and each is written once.
#pragma once
#include "aiflame_schema.hpp"

#include <cstdint>

namespace aiflame::kernel_shapes {

// The row of `kernel_shapes`. From any thread; two threads that are first at the same moment may both write it.
uint32_t row(const schema::KernelShape& shape) noexcept;

// A new recording has empty tables.
void forget_rows() noexcept;

}  // namespace aiflame::kernel_shapes
