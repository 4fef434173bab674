// The driver's start, its devices, and the way of each call past CUPTI.
#include "driver_api.hpp"

#include <dlfcn.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace fake {
namespace {

struct State {
  std::recursive_mutex lock;
  pid_t pid = 0;
  bool initialized = false;
  std::atomic<bool> gone{false};
  std::atomic<const Listener*> listener{nullptr};
  std::atomic<uint64_t> ids{0};
};
State& state = *new State;
thread_local uint32_t correlation = 0;
thread_local bool in_runtime = false;

bool listen(const Listener* listener) {
  const Listener* nobody = nullptr;
  return state.listener.compare_exchange_strong(nobody, listener) || nobody == listener;
}
void unlisten(const Listener* listener) { state.listener.compare_exchange_strong(listener, nullptr); }

const Driver table{listen,
                   unlisten,
                   driver::now,
                   [] { return state.gone.load(); },
                   [] { return static_cast<uint32_t>(setting("FAKE_CUDA_DEVICES", 1)); },
                   driver::may_break_captures};

// A tool is loaded and called before cuInit returns; a second cuInit does nothing.
void inject() {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (!path || !*path) return;
  void* library = dlopen(path, RTLD_NOW);
  if (!library) return;
  if (auto* initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"))) initialize();
}

bool launches(const Call& call) {
  return call.context && call.interface == Interface::DRIVER &&
         (call.id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel || call.id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx);
}

}  // namespace

namespace driver {

std::recursive_mutex& lock() { return state.lock; }

CUresult usable() {
  if (state.gone) return CUDA_ERROR_DEINITIALIZED;
  return state.initialized && state.pid == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

uint64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (static_cast<uint64_t>(time.tv_sec) + 86400) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

uint64_t next_id() { return ++state.ids; }

bool heard() { return state.listener.load() != nullptr; }

void announce(uint32_t id, Context* context, Stream* stream, void* descriptor) {
  if (const Listener* listener = state.listener.load()) listener->resource(id, context, stream, descriptor);
}

void perform(Work work, Stream* stream) {
  if (!work.context) work.context = current();
  work.correlation = correlation;
  if (stream) {
    Guard guard(lock());
    uint64_t duration = work.end, earliest = now();
    work.stream = stream->id;
    work.start = stream->busy_until != kNever && stream->busy_until > earliest ? stream->busy_until : earliest;
    work.end = duration == kNever ? kNever : work.start + duration;
    stream->busy_until = work.end;
  }
  if (const Listener* listener = state.listener.load()) listener->work(work);
}

CUresult call(Call one, CUresult (*body)(void*), void* argument) {
  if (CUresult result = usable()) return result;
  CUresult result = CUDA_SUCCESS;
  one.result = &result;
  if (in_runtime) one.correlation = correlation;
  const Listener* listener = state.listener.load();
  if (listener) listener->enter(one);
  uint32_t outer = correlation;
  bool outer_in_runtime = in_runtime;
  correlation = one.correlation;
  in_runtime |= one.interface == Interface::RUNTIME;
  if (launches(one)) one.context->launches++;
  result = body(argument);
  if (launches(one)) one.context->launches--;
  correlation = outer;
  in_runtime = outer_in_runtime;
  one.context = current();
  if (listener && state.listener.load() == listener) listener->leave(one);
  return result;
}

}  // namespace driver
}  // namespace fake

using namespace fake;
using driver::api;
using driver::Guard;
using driver::lock;

extern "C" const Driver* fake_driver() { return &table; }

// The end of the process.
extern "C" __attribute__((visibility("default"))) void fake_shut_down() { state.gone = true; }

API cuInit(unsigned) {
  Guard guard(lock());
  if (state.pid) return state.pid == getpid() && state.initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  if (table.devices() == 0) return CUDA_ERROR_NO_DEVICE;
  state.pid = getpid();
  // The driver's own, before any tool's: it runs after theirs.
  atexit([] { state.gone = state.pid == getpid(); });
  inject();
  state.initialized = true;
  driver::announce(CUPTI_CBID_RESOURCE_CU_INIT_FINISHED, nullptr, nullptr, nullptr);
  return CUDA_SUCCESS;
}

API cuDriverGetVersion(int* version) {
  *version = static_cast<int>(setting("FAKE_CUDA_DRIVER", 13000));
  return CUDA_SUCCESS;
}

API cuDeviceGetCount(int* count) {
  *count = static_cast<int>(table.devices());
  return api(CBID(cuDeviceGetCount), "cuDeviceGetCount", nullptr, [] { return CUDA_SUCCESS; });
}

API cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  if (CUresult result = driver::usable()) return result;
  return ordinal >= 0 && ordinal < static_cast<int>(table.devices()) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

API cuDeviceGetName(char* name, int length, CUdevice) {
  snprintf(name, static_cast<size_t>(length), "Fake GPU");
  return api(CBID(cuDeviceGetName), "cuDeviceGetName", nullptr, [] { return CUDA_SUCCESS; });
}

API cuDeviceGetPCIBusId(char* address, int length, CUdevice device) {
  snprintf(address, static_cast<size_t>(length), "0000:%02X:00.0", 0x1B + device);
  return api(CBID(cuDeviceGetPCIBusId), "cuDeviceGetPCIBusId", nullptr, [] { return CUDA_SUCCESS; });
}

// Each process has devices of its own, unless it is said that they are the same.
API cuDeviceGetUuid_v2(CUuuid* identity, CUdevice device) {
  long parts[2] = {setting("FAKE_CUDA_MACHINE", getpid()), device};
  memcpy(identity->bytes, parts, sizeof identity->bytes);
  return driver::usable();
}

API cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT       ? 4
           : attribute == CU_DEVICE_ATTRIBUTE_CLOCK_RATE               ? 1'000'000  // kHz
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
                                                                       : 0;
  return api(CBID(cuDeviceGetAttribute), "cuDeviceGetAttribute", nullptr, [] { return CUDA_SUCCESS; });
}

// A function of a driver that is newer than the headers.
extern "C" __attribute__((visibility("default"))) CUresult cuNewerThanTheHeaders() {
  return api(CUPTI_DRIVER_TRACE_CBID_SIZE + kAfterTheLast, "cuNewerThanTheHeaders", nullptr, [] { return CUDA_SUCCESS; });
}

API cuGetProcAddress(const char* name, void** function, int, cuuint64_t, CUdriverProcAddressQueryResult* found) {
  std::string versioned = std::string(name) + "_v2";
  void* self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  *function = dlsym(self, versioned.c_str());
  if (!*function) *function = dlsym(self, name);
  if (found) *found = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
