// The driver's start, devices, contexts, streams, modules and memory.
#include "driver.hpp"

#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>

#define API extern "C" __attribute__((visibility("default"))) CUresult CUDAAPI
#define CBID(name) CUPTI_DRIVER_TRACE_CBID_##name

namespace fake {
namespace {

constexpr size_t kMemory = size_t{1} << 40;

struct State {
  std::recursive_mutex lock;
  pid_t pid = 0;
  bool initialized = false;
  std::atomic<bool> gone{false};
  std::atomic<const Listener*> listener{nullptr};
  std::atomic<uint64_t> ids{0};
  std::map<std::string, uint64_t> durations;
  std::map<int, Context*> primaries;
};
State& state = *new State;
thread_local std::vector<Context*> stack;
thread_local uint32_t correlation = 0;
thread_local bool in_runtime = false;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

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
                   [] { return capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED; }};

using Guard = std::lock_guard<std::recursive_mutex>;

// A tool is loaded and called before cuInit returns; a second cuInit does nothing.
void inject() {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (!path || !*path) return;
  void* library = dlopen(path, RTLD_NOW);
  if (!library) return;
  if (auto* initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"))) initialize();
}

Context* make_context(int device) {
  auto* context = new Context{.id = static_cast<uint32_t>(driver::next_id()), .device = static_cast<uint32_t>(device)};
  context->default_stream.id = 7;
  return context;
}

void end_context(Context* context) {
  if (!context->alive) return;
  driver::announce(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, context, nullptr, nullptr);
  context->alive = false;
}

void wait_until(uint64_t end) {
  while (end != kNever && driver::now() < end) usleep(20);
}

uint64_t busy_until(Context* context) {
  Guard guard(state.lock);
  auto until = [](uint64_t end) { return end == kNever ? 0 : end; };
  uint64_t latest = until(context->default_stream.busy_until);
  for (Stream* stream : context->streams) latest = std::max(latest, until(stream->busy_until));
  return latest;
}

size_t image_bytes(const char* image) {
  if (memcmp(image,
             "\x7f"
             "ELF",
             4) != 0)
    return strlen(image);
  uint64_t sections;
  uint16_t size, count;
  memcpy(&sections, image + 40, 8);
  memcpy(&size, image + 58, 2);
  memcpy(&count, image + 60, 2);
  return sections + uint64_t{size} * count;
}

CUresult load(CUmodule* module, const void* image) {
  if (!driver::current()) return CUDA_ERROR_INVALID_CONTEXT;
  auto* bytes = static_cast<const char*>(image);
  auto* made = new Module{
      .id = static_cast<uint32_t>(driver::next_id()), .crc = 0, .image = std::string(bytes, image_bytes(bytes)), .context = driver::current()};
  *module = reinterpret_cast<CUmodule>(made);
  CUpti_ModuleResourceData data{.moduleId = made->id, .cubinSize = made->image.size(), .pCubin = made->image.data()};
  driver::announce(CUPTI_CBID_RESOURCE_MODULE_LOADED, made->context, nullptr, &data);
  return CUDA_SUCCESS;
}

}  // namespace

namespace driver {

CUresult usable() {
  if (state.gone) return CUDA_ERROR_DEINITIALIZED;
  return state.initialized && state.pid == getpid() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

Context* current() { return stack.empty() || !stack.back() || !stack.back()->alive ? nullptr : stack.back(); }

Stream* stream_of(CUstream handle) {
  if (reinterpret_cast<uintptr_t>(handle) > 2) return reinterpret_cast<Stream*>(handle);
  return current() ? &current()->default_stream : nullptr;
}

uint64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (static_cast<uint64_t>(time.tv_sec) + 86400) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

uint64_t next_id() { return ++state.ids; }

void announce(uint32_t id, Context* context, Stream* stream, void* descriptor) {
  if (const Listener* listener = state.listener.load()) listener->resource(id, context, stream, descriptor);
}

void perform(Work work, Stream* stream) {
  if (!work.context) work.context = current();
  work.correlation = correlation;
  if (stream) {
    Guard guard(state.lock);
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
  result = body(argument);
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
using driver::current;

extern "C" const Driver* fake_driver() { return &table; }

// Kernels of this name take so long from here on; kNever: they never complete.
extern "C" __attribute__((visibility("default"))) void fake_kernel_duration(const char* function, uint64_t ns) {
  Guard guard(state.lock);
  state.durations[function] = ns;
}

// The end of the process.
extern "C" __attribute__((visibility("default"))) void fake_shut_down() { state.gone = true; }

API cuInit(unsigned) {
  Guard guard(state.lock);
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

API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return api(CBID(cuThreadExchangeStreamCaptureMode), "cuThreadExchangeStreamCaptureMode", nullptr, [&] {
    std::swap(*mode, capture_mode);
    return CUDA_SUCCESS;
  });
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

extern "C" __attribute__((visibility("default"))) CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice device) {
  return api(CBID(cuCtxCreate_v2), "cuCtxCreate_v2", nullptr, [&] {
    auto* made = make_context(device);
    *context = reinterpret_cast<CUcontext>(made);
    driver::announce(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, made, nullptr, nullptr);
    stack.push_back(made);
    return CUDA_SUCCESS;
  });
}

API cuCtxDestroy(CUcontext context) {
  return api(CBID(cuCtxDestroy_v2), "cuCtxDestroy_v2", nullptr, [&] {
    auto* known = reinterpret_cast<Context*>(context);
    if (!known->alive) return CUDA_ERROR_INVALID_CONTEXT;
    end_context(known);
    if (!stack.empty() && stack.back() == known) stack.pop_back();
    return CUDA_SUCCESS;
  });
}

API cuCtxGetCurrent(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(current());
  return driver::usable();
}

API cuCtxSetCurrent(CUcontext context) {
  if (CUresult result = driver::usable()) return result;
  if (!stack.empty()) stack.pop_back();
  if (context) stack.push_back(reinterpret_cast<Context*>(context));
  return CUDA_SUCCESS;
}

API cuCtxPushCurrent(CUcontext context) {
  stack.push_back(reinterpret_cast<Context*>(context));
  return driver::usable();
}

API cuCtxPopCurrent(CUcontext* context) {
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context) *context = reinterpret_cast<CUcontext>(stack.back());
  stack.pop_back();
  return driver::usable();
}

API cuCtxGetDevice(CUdevice* device) {
  return api(CBID(cuCtxGetDevice), "cuCtxGetDevice", nullptr, [&] {
    if (!current()) return CUDA_ERROR_INVALID_CONTEXT;
    *device = static_cast<int>(current()->device);
    return CUDA_SUCCESS;
  });
}

API cuCtxSynchronize() {
  if (!current()) return CUDA_ERROR_INVALID_CONTEXT;
  return api(CBID(cuCtxSynchronize), "cuCtxSynchronize", nullptr, [&] {
    wait_until(busy_until(current()));
    return CUDA_SUCCESS;
  });
}

API cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return api(CBID(cuDevicePrimaryCtxRetain), "cuDevicePrimaryCtxRetain", nullptr, [&] {
    Context* made = nullptr;
    {
      Guard guard(state.lock);
      Context*& primary = state.primaries[device];
      if (!primary || !primary->alive) made = primary = make_context(device);
      primary->primary_users++;
      *context = reinterpret_cast<CUcontext>(primary);
    }
    if (made) driver::announce(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, made, nullptr, nullptr);
    return CUDA_SUCCESS;
  });
}

API cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (CUresult result = driver::usable()) return result;
  Guard guard(state.lock);
  Context* primary = state.primaries[device];
  *flags = 0;
  *active = primary && primary->alive;
  return CUDA_SUCCESS;
}

API cuDevicePrimaryCtxRelease(CUdevice device) {
  return api(CBID(cuDevicePrimaryCtxRelease_v2), "cuDevicePrimaryCtxRelease_v2", nullptr, [&] {
    Context* primary = state.primaries[device];
    if (primary && --primary->primary_users == 0) end_context(primary);
    return CUDA_SUCCESS;
  });
}

API cuDevicePrimaryCtxReset(CUdevice device) {
  return api(CBID(cuDevicePrimaryCtxReset_v2), "cuDevicePrimaryCtxReset_v2", nullptr, [&] {
    if (Context* primary = state.primaries[device]) end_context(primary);
    return CUDA_SUCCESS;
  });
}

API cuStreamCreate(CUstream* stream, unsigned) {
  if (!current()) return CUDA_ERROR_INVALID_CONTEXT;
  Guard guard(state.lock);
  auto* made = new Stream{.id = static_cast<uint32_t>(driver::next_id()) + 100};
  current()->streams.push_back(made);
  *stream = reinterpret_cast<CUstream>(made);
  return driver::usable();
}

API cuStreamSynchronize(CUstream stream) {
  cuStreamSynchronize_params parameters{stream};
  return api(CBID(cuStreamSynchronize), "cuStreamSynchronize", &parameters, [&] {
    wait_until(driver::stream_of(stream)->busy_until);
    return CUDA_SUCCESS;
  });
}

// Of a program whose default stream is each thread's own. The fake does its work in the context's.
extern "C" __attribute__((visibility("default"))) CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  cuStreamSynchronize_ptsz_params parameters{stream};
  return api(CBID(cuStreamSynchronize_ptsz), "cuStreamSynchronize_ptsz", &parameters, [&] {
    wait_until(driver::stream_of(stream)->busy_until);
    return CUDA_SUCCESS;
  });
}

API cuStreamQuery(CUstream stream) {
  cuStreamQuery_params parameters{stream};
  return api(CBID(cuStreamQuery), "cuStreamQuery", &parameters, [&] {
    Guard guard(state.lock);
    return driver::stream_of(stream)->busy_until > driver::now() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
  });
}

API cuEventCreate(CUevent* event, unsigned) {
  *event = reinterpret_cast<CUevent>(new Event);
  return driver::usable();
}

API cuEventRecord(CUevent event, CUstream stream) {
  Guard guard(state.lock);
  reinterpret_cast<Event*>(event)->done_at = driver::stream_of(stream)->busy_until;
  return driver::usable();
}

API cuEventSynchronize(CUevent event) {
  cuEventSynchronize_params parameters{event};
  return api(CBID(cuEventSynchronize), "cuEventSynchronize", &parameters, [&] {
    wait_until(reinterpret_cast<Event*>(event)->done_at);
    return CUDA_SUCCESS;
  });
}

API cuModuleLoadData(CUmodule* module, const void* image) {
  cuModuleLoadData_params parameters{module, image};
  return api(CBID(cuModuleLoadData), "cuModuleLoadData", &parameters, [&] { return load(module, image); });
}

API cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) {
  return api(CBID(cuModuleLoadDataEx), "cuModuleLoadDataEx", nullptr, [&] { return load(module, image); });
}

API cuModuleUnload(CUmodule module) {
  return api(CBID(cuModuleUnload), "cuModuleUnload", nullptr, [&] {
    auto* known = reinterpret_cast<Module*>(module);
    CUpti_ModuleResourceData data{.moduleId = known->id, .cubinSize = known->image.size(), .pCubin = known->image.data()};
    driver::announce(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, known->context, nullptr, &data);
    memset(known->image.data(), 0, known->image.size());  // a client without a copy has nothing
    return CUDA_SUCCESS;
  });
}

API cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (CUresult result = driver::usable()) return result;
  Guard guard(state.lock);
  auto known = state.durations.find(name);
  uint64_t duration = known == state.durations.end() ? 10'000 : known->second;
  *function = reinterpret_cast<CUfunction>(new Function{.name = name, .module = reinterpret_cast<Module*>(module), .duration = duration});
  return CUDA_SUCCESS;
}

API cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
  cuMemAlloc_v2_params parameters{pointer, bytes};
  return api(CBID(cuMemAlloc_v2), "cuMemAlloc_v2", &parameters, [&] {
    *pointer = bytes > kMemory ? 0 : reinterpret_cast<CUdeviceptr>(calloc(1, bytes));
    if (!*pointer) return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t now = driver::now();
    driver::perform({.kind = Work::MEMORY,
                     .detail = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION,
                     .start = now,
                     .end = now,
                     .bytes = bytes,
                     .address = *pointer},
                    nullptr);
    return CUDA_SUCCESS;
  });
}

API cuMemFree(CUdeviceptr pointer) {
  cuMemFree_v2_params parameters{pointer};
  return api(CBID(cuMemFree_v2), "cuMemFree_v2", &parameters, [&] {
    free(reinterpret_cast<void*>(pointer));
    uint64_t now = driver::now();
    driver::perform({.kind = Work::MEMORY, .detail = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE, .start = now, .end = now, .address = pointer},
                    nullptr);
    return CUDA_SUCCESS;
  });
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
