// Code objects that AMD's runtime has loaded: their functions by address, and their kernels by rocprofiler's number.
#pragma once
#include "hooks/rocprofiler/api.hpp"

#include <atomic>
#include <cstdint>

namespace aiflame::rocprofiler {

// Never freed: records of a code object may come after it was unloaded, and no number is used again.
struct Kernel {
  const char* name;  // without `.kd`; nullptr: unknown
  uint32_t registers, group_bytes, private_bytes;
};

void on_code_object(const CodeObject& object) noexcept;
void on_kernel_symbol(const KernelSymbol& symbol) noexcept;

// A kernel that was never reported has no name.
Kernel kernel(uint64_t number) noexcept;

// A place in device code, as `gpu_samples` states it.
struct Place {
  uint32_t function;  // row of `gpu_functions`, 0: the code object is unknown
  uint32_t offset;
};
Place place_of(const Pc& pc) noexcept;

// A new recording has empty tables.
void forget_functions() noexcept;

}  // namespace aiflame::rocprofiler
