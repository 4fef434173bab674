// Programs of Intel's GPUs: their code, and where it lies in the GPU's memory.
#pragma once
#include "hooks/opencl/api.hpp"

namespace aiflame::opencl {

// Keep the code of a program when it gets its first kernel: by then it is built, and no kernel of it has run.
Kernel create_kernel(Program program, const char* name, int32_t* error) noexcept;
int32_t create_kernels(Program program, uint32_t count, Kernel* kernels, uint32_t* made) noexcept;
// A later program may have the handle, or this one be built anew.
int32_t release_program(Program program) noexcept;
int32_t build_program(Program program, uint32_t count, const DeviceId* devices, const char* options, BuildCallback callback, void* data) noexcept;

void forget_programs() noexcept;

}  // namespace aiflame::opencl
