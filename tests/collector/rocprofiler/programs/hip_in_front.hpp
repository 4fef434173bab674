// The functions of a runtime in a library of its own: a program's stacks end here, and go on in rocprofiler.
#pragma once
#include "fake_rocprofiler.hpp"

namespace hip {

void load(const char* bytes, size_t size, const char* const* kernels, size_t count);
void unload();
void get_device();
void launch_kernel(const fake::Work& work, uint32_t groups, uint32_t group);
void copy(uint64_t bytes);
void lose_samples();
void synchronize();

}  // namespace hip
