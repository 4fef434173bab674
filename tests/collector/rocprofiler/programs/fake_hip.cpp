// AMD's HIP runtime with functions of the public names, for work on the stand-in's device. The SDK is registered with by the first call, as in the
// real runtime: rocprofiler hears of that call, too.
#include "fake_hip.hpp"

#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>

#include "fake_rocprofiler.hpp"

namespace {

void ready() {
  static bool registered = [] {
    if (!dlsym(RTLD_DEFAULT, "rocprofiler_configure")) return true;
    auto* set = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "rocprofiler_set_api_table"));
    if (!set) abort();
    set();
    return true;
  }();
  (void)registered;
}

uint64_t in(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace

#define HIP extern "C" __attribute__((visibility("default")))

HIP int hipInit(unsigned flags) {
  ready();
  fake::Call call("hipInit", {flags});
  return call.ends(0);
}

HIP int hipMemcpy(void* to, const void* from, size_t bytes, int kind) {
  fake::Call call("hipMemcpy", {in(to), in(from), bytes, static_cast<uint64_t>(kind)});
  if (!to) return call.ends(1);
  fake::submit_copy(bytes);
  return call.ends(0);
}

// It makes a call of the runtime's own, as many functions do.
HIP int hipMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  fake::Call call("hipMemset2D", {in(to), pitch, static_cast<uint64_t>(value), width, height});
  return call.ends(hipMemcpy(to, to, width * height, 3));
}

HIP int hipStreamQuery(void* stream) {
  fake::Call call("hipStreamQuery", {in(stream)});
  return call.ends(600);
}

HIP const char* hipGetErrorName(int error) {
  fake::Call call("hipGetErrorName", {static_cast<uint64_t>(error)});
  call.ends(77);  // the low half of the text's address
  return "hipErrorInvalidValue";
}

HIP int hipDeviceSynchronize() {
  fake::Call call("hipDeviceSynchronize");
  fake::wait_for_signal();
  return call.ends(0);
}

// Of a later release than this rocprofiler's.
HIP int hipFree(void*) {
  ready();
  return 0;
}
