#include "hip_in_front.hpp"

#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

// As AMD's rocprofiler-register does, which is linked with its runtime: where a tool is in the process, the SDK must be there.
struct Registration {
  Registration() {
    if (!dlsym(RTLD_DEFAULT, "rocprofiler_configure")) return;
    void* sdk = dlopen("librocprofiler-sdk.so", RTLD_LAZY | RTLD_NOLOAD);
    if (!sdk) sdk = dlopen("librocprofiler-sdk.so", RTLD_LAZY | RTLD_GLOBAL);
    if (!sdk) sdk = dlopen(beside().c_str(), RTLD_LAZY | RTLD_GLOBAL);
    auto* set = sdk ? reinterpret_cast<int (*)()>(dlsym(sdk, "rocprofiler_set_api_table")) : nullptr;
    if (!set) {
      fputs("rocprofiler_set_api_table not found\n", stderr);
      abort();
    }
    set();
  }

  static std::string beside() {
    Dl_info here;
    dladdr(reinterpret_cast<void*>(beside), &here);
    std::string path = here.dli_fname;
    return path.substr(0, path.rfind('/')) + "/librocprofiler-sdk.so";
  }
} registration;

}  // namespace

#ifndef WITHOUT_SDK
namespace hip {

void load(const char* bytes, size_t size, const char* const* kernels, size_t count) { fake::load_code_object(bytes, size, kernels, count); }
void unload() { fake::unload_code_object(); }

void get_device() { fake::Call call("hipGetDevice"); }

void launch_kernel(const fake::Work& work, uint32_t groups, uint32_t group) {
  fake::Call call("hipModuleLaunchKernel");
  fake::submit(work, groups, group);
}

void copy(uint64_t bytes) {
  fake::Call call("hipMemcpy");
  fake::submit_copy(bytes);
}

void lose_samples() {
  fake::lose_samples(7);
  fake::sample_of_nothing();
}

void synchronize() {
  fake::Call call("hipDeviceSynchronize");
  fake::wait_for_signal();
}

}  // namespace hip
#else
void hip_without_work() {}
#endif
