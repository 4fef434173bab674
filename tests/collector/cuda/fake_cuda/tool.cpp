// Another user of CUPTI, for tests: it counts the program's kernels between tool_start() and tool_stop(). In the order in which
// torch.profiler calls CUPTI when it is linked with it, and in Proton's when it looks the functions up.
#include "driver.hpp"

#include <cupti.h>
#include <dlfcn.h>
#include <cstdlib>
#include <mutex>
#include <set>

#define EXPORT extern "C" __attribute__((visibility("default")))

#ifdef LOOKS_UP
#define CUPTI(name) reinterpret_cast<decltype(&name)>(look_up(#name))
#else
#define CUPTI(name) name
#endif

namespace {

#ifdef LOOKS_UP
void* library() {
  const char* copy = getenv("TOOL_CUPTI");
  static void* const found = dlopen(copy ? copy : "libcupti.so.13", RTLD_LOCAL | RTLD_LAZY);
  return found;
}
void* look_up(const char* name) {
  void* function = dlsym(library(), name);
  if (const char* error = dlerror()) fake::wrong("the other tool: dlsym() found %s and dlerror() says: %s", name, error);
  return function;
}
// Kept from the first look-up on, as Proton keeps them.
decltype(&cuptiSubscribe) subscribe() {
  static auto* const found = CUPTI(cuptiSubscribe);
  return found;
}
CUpti_SubscriberHandle subscriber;
int launches;
void CUPTIAPI called(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
  launches += static_cast<const CUpti_CallbackData*>(data)->callbackSite == CUPTI_API_ENTER;
}
#endif

size_t buffer_bytes() { return static_cast<size_t>(fake::setting("TOOL_BUFFER_BYTES", 64 << 10)); }
// Its own clock: nothing of the program's, or of ours, is at these times.
constexpr uint64_t kLater = 1'000'000'000'000'000;

std::mutex lock;
std::set<uint8_t*> buffers;
int kernels;

void must(CUptiResult result, const char* what) {
  if (result != CUPTI_SUCCESS) fake::wrong("the other tool: %s: error %d", what, result);
}
#define MUST(call) must(call, #call)

void CUPTIAPI request(uint8_t** buffer, size_t* bytes, size_t* most) {
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, buffer_bytes()));
  *bytes = buffer_bytes();
  *most = 0;
  std::lock_guard guard(lock);
  buffers.insert(*buffer);
}

void CUPTIAPI complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t used) {
  std::lock_guard guard(lock);
  if (!buffers.erase(buffer)) fake::wrong("the other tool was given a buffer that is not its own");
  CUpti_Activity* record = nullptr;
  while (CUPTI(cuptiActivityGetNextRecord)(buffer, used, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) fake::wrong("the other tool was given records that it did not ask for");
    kernels++;
#ifndef LOOKS_UP
    if (reinterpret_cast<CUpti_ActivityKernel10*>(record)->start < kLater) fake::wrong("the other tool's records are not by its clock");
#endif
  }
  free(buffer);
}

}  // namespace

#ifdef LOOKS_UP

EXPORT void tool_look_up() { subscribe(); }

EXPORT void tool_start() {
  MUST(subscribe()(&subscriber, called, nullptr));
  MUST(CUPTI(cuptiActivityEnable)(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  MUST(CUPTI(cuptiActivityRegisterCallbacks)(request, complete));
  MUST(CUPTI(cuptiEnableCallback)(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
}

EXPORT void tool_stop() {
  MUST(CUPTI(cuptiActivityFlushAll)(0));
  MUST(CUPTI(cuptiActivityFlushAll)(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  MUST(CUPTI(cuptiActivityDisable)(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  MUST(CUPTI(cuptiUnsubscribe)(subscriber));
  MUST(CUPTI(cuptiFinalize)());
}

EXPORT int tool_launches() { return launches; }

#else

EXPORT void tool_start() {
  MUST(cuptiActivityRegisterTimestampCallback([] {
    uint64_t time;
    cuptiGetTimestamp(&time);
    return time + kLater;
  }));
  MUST(cuptiActivityRegisterCallbacks(request, complete));
  MUST(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
}

EXPORT void tool_stop() {
  MUST(cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  MUST(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
}

EXPORT int tool_launches() { return 0; }

#endif

EXPORT int tool_kernels() { return kernels; }
EXPORT int tool_buffers_out() { return static_cast<int>(buffers.size()); }
