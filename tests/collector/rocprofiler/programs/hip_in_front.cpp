#include "hip_in_front.hpp"

namespace hip {

void load(const char* bytes, size_t size, const char* const* kernels, size_t count) { fake::load_code_object(bytes, size, kernels, count); }
void unload() { fake::unload_code_object(); }

void get_device() { fake::Call call("hipGetDevice"); }

void launch_kernel(const fake::Work& work, uint32_t groups, uint32_t group) {
  fake::Call call("hipModuleLaunchKernel");
  fake::dispatch(work, groups, group);
}

void copy(uint64_t bytes) {
  fake::Call call("hipMemcpy");
  fake::copy(bytes);
}

void lose_samples() {
  fake::lose_samples(7);
  fake::sample_of_nothing();
}

void synchronize() {
  fake::Call call("hipDeviceSynchronize");
  fake::wait();
}

}  // namespace hip
