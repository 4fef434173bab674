// The subscriber and its callbacks.
#include "cupti.hpp"

#include <dlfcn.h>
#include <unistd.h>
#include <array>
#include <mutex>

#ifndef FAKE_CUPTI_VERSION
#define FAKE_CUPTI_VERSION CUPTI_API_VERSION
#endif

struct CUpti_Subscriber_st {
  CUpti_CallbackFunc function;
  void* user;
  std::array<std::array<std::atomic<bool>, 1024>, CUPTI_CB_DOMAIN_SIZE> calls{};
  std::array<std::atomic<bool>, CUPTI_CB_DOMAIN_SIZE> domains{};
  std::atomic<bool> subscribed{true};
};

namespace fake::cupti {

thread_local bool in_buffer_function = false;

namespace {

struct State {
  std::mutex lock;
  std::atomic<CUpti_SubscriberHandle> subscriber{nullptr};
  std::atomic<uint32_t> correlation{0};
  std::atomic<uint64_t> called_back{0};
  pid_t pid = 0;
  std::atomic<bool> ended{false};
};
State& state = *new State;

bool wanted(CUpti_SubscriberHandle subscriber, int domain, uint32_t id) {
  auto on = [](const std::atomic<bool>& flag) { return flag.load(std::memory_order_relaxed); };
  auto at = static_cast<size_t>(domain);
  return !on(state.ended) && subscriber && on(subscriber->subscribed) && (on(subscriber->domains.at(at)) || on(subscriber->calls.at(at).at(id)));
}

void call_back(Call& call, CUpti_ApiCallbackSite site) {
  CUpti_SubscriberHandle subscriber = state.subscriber.load();
  CUpti_CallbackDomain domain = call.interface == Interface::RUNTIME ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
  if (!wanted(subscriber, domain, call.id)) return;
  state.called_back.fetch_add(1, std::memory_order_relaxed);
  CUpti_CallbackData data{.callbackSite = site,
                          .functionName = call.name,
                          .functionParams = call.parameters,
                          .functionReturnValue = site == CUPTI_API_EXIT ? call.result : nullptr,
                          .symbolName = call.symbol,
                          .context = reinterpret_cast<CUcontext>(call.context),
                          .contextUid = call.context ? call.context->id : 0,
                          .correlationData = &call.data,
                          .correlationId = call.correlation};
  subscriber->function(subscriber->user, domain, call.id, &data);
}

const Listener listener{
    .enter =
        [](Call& call) {
          if (!call.correlation) call.correlation = ++state.correlation;
          call_back(call, CUPTI_API_ENTER);
        },
    .leave = [](Call& call) { call_back(call, CUPTI_API_EXIT); },
    .resource =
        [](uint32_t id, Context* context, Stream* stream, void* descriptor) {
          if (id == CUPTI_CBID_RESOURCE_MODULE_LOADED) module_loaded(*static_cast<CUpti_ModuleResourceData*>(descriptor));
          CUpti_SubscriberHandle subscriber = state.subscriber.load();
          if (!wanted(subscriber, CUPTI_CB_DOMAIN_RESOURCE, id)) return;
          CUpti_ResourceData data{.context = reinterpret_cast<CUcontext>(context),
                                  .resourceHandle = {.stream = reinterpret_cast<CUstream>(stream)},
                                  .resourceDescriptor = descriptor};
          subscriber->function(subscriber->user, CUPTI_CB_DOMAIN_RESOURCE, id, &data);
        },
    .work =
        [](const Work& work) {
          if (state.ended) return;
          record(work);
          sample(work);
          count(work);
        },
};

void check(const char* function, CUpti_SubscriberHandle subscriber) {
  enter(function);
  if (!subscriber || !subscriber->subscribed) wrong("%s: the subscriber has left", function);
}

}  // namespace

const Driver& driver() {
  static const Driver* const found = [] {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY);
    auto get = library ? reinterpret_cast<const Driver* (*)()>(dlsym(library, "fake_driver")) : nullptr;
    if (!get) wrong("the fake CUPTI found another driver: put both folders on LD_LIBRARY_PATH");
    const Driver* driver = get();
    return driver;
  }();
  return *found;
}

bool attach() { return driver().listen(&listener); }

void enter(const char* function) {
  if (driver().gone()) wrong("%s: the driver has shut down", function);
  if (state.ended) wrong("%s: called after an error at which CUPTI ended itself", function);
  if (!state.pid) state.pid = getpid();
  if (state.pid != getpid()) wrong("%s: called in the child of a fork", function);
}

void end_itself() { state.ended = true; }

}  // namespace fake::cupti

using namespace fake;
using namespace fake::cupti;

CUPTI_FUNCTION cuptiGetVersion(uint32_t* version) {
  *version = static_cast<uint32_t>(setting("FAKE_CUPTI_VERSION", FAKE_CUPTI_VERSION));
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_SUCCESS                                    ? "CUPTI_SUCCESS"
          : result == CUPTI_ERROR_INVALID_PARAMETER                  ? "CUPTI_ERROR_INVALID_PARAMETER"
          : result == CUPTI_ERROR_INVALID_OPERATION                  ? "CUPTI_ERROR_INVALID_OPERATION"
          : result == CUPTI_ERROR_OUT_OF_MEMORY                      ? "CUPTI_ERROR_OUT_OF_MEMORY"
          : result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES            ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
          : result == CUPTI_ERROR_HARDWARE_BUSY                      ? "CUPTI_ERROR_HARDWARE_BUSY"
          : result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
                                                                     : "CUPTI_ERROR_UNKNOWN";
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc function, void* user) {
  enter("cuptiSubscribe");
  if (setting("FAKE_CUPTI_TAKEN", 0)) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  std::lock_guard guard(state.lock);
  if (state.subscriber || !attach()) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  *subscriber = new CUpti_Subscriber_st{.function = function, .user = user};
  state.subscriber = *subscriber;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  check("cuptiUnsubscribe", subscriber);
  std::lock_guard guard(state.lock);
  subscriber->subscribed = false;
  state.subscriber = nullptr;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  check("cuptiEnableCallback", subscriber);
  subscriber->calls.at(static_cast<size_t>(domain)).at(id) = on != 0;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiEnableDomain(uint32_t on, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain) {
  check("cuptiEnableDomain", subscriber);
  subscriber->domains.at(static_cast<size_t>(domain)) = on != 0;
  return CUPTI_SUCCESS;
}

// How often any subscriber was called back about a call.
extern "C" __attribute__((visibility("default"))) uint64_t fake_cupti_called_back() { return state.called_back; }

// Those that the fake driver has, under their names.
CUPTI_FUNCTION cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char** name) {
#define NAMED(function) NAMED_OF(DRIVER, function)
#define NAMED_OF(api, function)             \
  case CUPTI_##api##_TRACE_CBID_##function: \
    *name = #function;                      \
    return CUPTI_SUCCESS;
  bool driver_api = domain == CUPTI_CB_DOMAIN_DRIVER_API;
  uint32_t end = driver_api ? static_cast<uint32_t>(CUPTI_DRIVER_TRACE_CBID_SIZE) : static_cast<uint32_t>(CUPTI_RUNTIME_TRACE_CBID_SIZE);
  if (id == end + kAfterTheLast) return *name = driver_api ? "cuNewerThanTheHeaders" : "cudaNewerThanTheHeaders_v99010", CUPTI_SUCCESS;
  if (!id || id >= end) return CUPTI_ERROR_INVALID_PARAMETER;
  if (driver_api) switch (id) {
      NAMED(cuLaunchKernel)
      NAMED(cuLaunchKernelEx)
      NAMED(cuLaunchCooperativeKernel)
      NAMED(cuGraphLaunch)
      NAMED(cuMemcpyHtoD_v2)
      NAMED(cuMemcpyHtoDAsync_v2)
      NAMED(cuMemcpyDtoH_v2)
      NAMED(cuMemcpyDtoDAsync_v2)
      NAMED(cuMemcpyPeerAsync)
      NAMED(cuMemsetD8Async)
      NAMED(cuStreamSynchronize)
      NAMED(cuStreamSynchronize_ptsz)
      NAMED(cuEventSynchronize)
      NAMED(cuCtxSynchronize)
      NAMED(cuMemAlloc_v2)
      NAMED(cuMemFree_v2)
      NAMED(cuMemHostAlloc)
      NAMED(cuMemFreeHost)
      NAMED(cuMemAddressReserve)
      NAMED(cuMemCreate)
      NAMED(cuMemRelease)
      NAMED(cuMemMap)
      NAMED(cuMemUnmap)
      NAMED(cuMemRetainAllocationHandle)
      NAMED(cuMemExportToShareableHandle)
      NAMED(cuMemImportFromShareableHandle)
      NAMED(cuModuleLoadData)
      NAMED(cuDeviceGetCount)
      NAMED(cuDeviceGetName)
      NAMED(cuDeviceGetPCIBusId)
      NAMED(cuDeviceGetAttribute)
      NAMED(cuDevicePrimaryCtxRetain)
      NAMED(cuCtxGetDevice)
      NAMED(cuThreadExchangeStreamCaptureMode)
      NAMED(cuStreamQuery)
      default:
        break;
    }
  else
    switch (id) {
      NAMED_OF(RUNTIME, cudaStreamSynchronize_v3020)
      NAMED_OF(RUNTIME, cudaEventSynchronize_v3020)
      NAMED_OF(RUNTIME, cudaDeviceSynchronize_v3020)
      NAMED_OF(RUNTIME, cudaGetDevice_v3020)
      NAMED_OF(RUNTIME, cudaGetLastError_v3020)
      NAMED_OF(RUNTIME, cudaMalloc_v3020)
      NAMED_OF(RUNTIME, cudaMemcpyAsync_v3020)
      NAMED_OF(RUNTIME, cudaStreamQuery_v3020)
      NAMED_OF(RUNTIME, cudaLaunchKernel_v7000)
      default:
        break;
    }
#undef NAMED
#undef NAMED_OF
  *name = driver_api ? "cuSomethingElse" : "cudaSomethingElse";
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiFinalize() {
  enter("cuptiFinalize");
  forget_activity();
  forget_sampling();
  forget_counters();
  std::lock_guard guard(state.lock);
  if (state.subscriber) state.subscriber.load()->subscribed = false;
  state.subscriber = nullptr;
  fake::cupti::driver().unlisten(&listener);
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiGetContextId(CUcontext context, uint32_t* id) {
  enter("cuptiGetContextId");
  if (!context) return CUPTI_ERROR_INVALID_CONTEXT;
  if (!reinterpret_cast<Context*>(context)->alive) wrong("cuptiGetContextId: the context is gone");
  *id = reinterpret_cast<Context*>(context)->id;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiGetDeviceId(CUcontext context, uint32_t* id) {
  enter("cuptiGetDeviceId");
  if (!context) return CUPTI_ERROR_INVALID_CONTEXT;
  if (!reinterpret_cast<Context*>(context)->alive) wrong("cuptiGetDeviceId: the context is gone");
  *id = reinterpret_cast<Context*>(context)->device;
  return CUPTI_SUCCESS;
}

// A thread's own default stream comes right after the context's.
CUPTI_FUNCTION cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t of_thread, uint32_t* id) {
  enter("cuptiGetStreamIdEx");
  if (!reinterpret_cast<Context*>(context)->alive) wrong("cuptiGetStreamIdEx: the context is gone");
  *id = stream ? reinterpret_cast<Stream*>(stream)->id : reinterpret_cast<Context*>(context)->default_stream.id + of_thread;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiGetGraphNodeId(CUgraphNode node, uint64_t* id) {
  enter("cuptiGetGraphNodeId");
  if (!node) return CUPTI_ERROR_INVALID_PARAMETER;
  *id = reinterpret_cast<Node*>(node)->id;
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiGetGraphId(CUgraph graph, uint32_t* id) {
  enter("cuptiGetGraphId");
  *id = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(graph) >> 4);
  return CUPTI_SUCCESS;
}

CUPTI_FUNCTION cuptiGetTimestamp(uint64_t* time) {
  *time = cupti::driver().now();
  return CUPTI_SUCCESS;
}
