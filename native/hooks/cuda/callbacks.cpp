// Calls of the driver's and the runtime's API → `launches`, each with its stack, and `syncs`. Passes every call on to calls.cpp when calls
// are traced.
#include "base/clock.hpp"
#include "base/large.hpp"
#include "hooks/cuda/calls.hpp"
#include "hooks/cuda/cuda.hpp"
#include "hooks/cuda/device_load.hpp"
#include "hooks/cuda/gate.hpp"
#include "hooks/cuda/internal.hpp"
#include "hooks/cuda/physical_memory.hpp"
#include "hooks/cuda/sampling.hpp"
#include "hooks/cuda/skip_driver_frames.hpp"
#include "hooks/python/bridge.hpp"
#include "hooks/shared/caller.hpp"
#include "records/kernel_variants.hpp"
#include "sampler/capture.hpp"
#include "sampler/threads.hpp"
#include "sampler/torch_autograd.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <atomic>
#include <string_view>

namespace aiflame::cuda {

namespace {

// A runtime call makes driver calls: the stack is captured once, by the outermost; each correlation id gets its row.
struct Calls {
  uint32_t depth;
  uint64_t frame;  // stack address of the outermost call: a call from a higher address means that a longjmp left this one
  Thread* by;      // nullptr: it is not recorded
  uint32_t thread, stack;
  torch_autograd::Point point;
  uint32_t variant;  // of the kernel that it launches
  uint64_t begin_ns;
  uint32_t correlation;
  uint32_t subscription;
  uint32_t wait_depth;  // of the outermost that waits, 0: none does
  Wait wait;
  uint64_t wait_begin_ns;
  uint64_t physical_ns;  // when the call on physical memory began
  uint64_t poked_ns;
};
thread_local Calls calls;
constexpr uint64_t kPokeEvery = 1'000'000;
// A call that began under an earlier subscription is ignored at its end: CUPTI reported only its beginning before we stepped aside.
constinit std::atomic<uint32_t> subscription{0};

// Which of the reported calls belong into `launches` or `syncs`: a bit each, of the driver's API, then of the runtime's.
AIFLAME_LARGE constinit std::atomic<uint64_t> launching[2][kMostCalls / 64]{};

std::atomic<uint64_t>& launching_word(CUpti_CallbackDomain domain, CUpti_CallbackId id) noexcept {
  return launching[domain == CUPTI_CB_DOMAIN_RUNTIME_API][id % kMostCalls / 64];
}
bool is_launching(CUpti_CallbackDomain domain, CUpti_CallbackId id) noexcept {
  return launching_word(domain, id).load(std::memory_order_relaxed) >> id % 64 & 1;
}
void keep_launching(CUpti_CallbackDomain domain, CUpti_CallbackId id, bool launches) noexcept {
  uint64_t bit = uint64_t{1} << id % 64;
  std::atomic<uint64_t>& word = launching_word(domain, id);
  launches ? word.fetch_or(bit, std::memory_order_relaxed) : word.fetch_and(~bit, std::memory_order_relaxed);
}

template <class Parameters>
uint64_t function_of(const CUpti_CallbackData& data) noexcept {
  return data.functionParams ? reinterpret_cast<uint64_t>(static_cast<const Parameters*>(data.functionParams)->f) : 0;
}

// Row of the Triton specialization that a driver call launches, 0: none. The parameters have the same layout from CUDA 12.0 to 13.5.
uint32_t launched_variant(CUpti_CallbackId id, const CUpti_CallbackData& data) noexcept {
  if (!kernel_variants::any()) return 0;
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz:
      return kernel_variants::of(function_of<cuLaunchKernel_params>(data));
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz:
      return kernel_variants::of(function_of<cuLaunchKernelEx_params>(data));
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz:
      return kernel_variants::of(function_of<cuLaunchCooperativeKernel_params>(data));
    default:
      return 0;
  }
}

bool is_graph_launch(CUpti_CallbackDomain domain, CUpti_CallbackId id) noexcept {
  return domain == CUPTI_CB_DOMAIN_DRIVER_API && (id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch || id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz);
}

void enter_call(const CUpti_CallbackData& data, const Registers& from) noexcept {
  uint32_t current = subscription.load(std::memory_order_relaxed);
  if (calls.subscription != current || from.sp >= calls.frame) calls.depth = calls.wait_depth = 0;
  calls.subscription = current;
  if (calls.depth++) return;
  calls.frame = from.sp;
  calls.correlation = 0;
  calls.stack = 0;
  calls.variant = 0;
  calls.begin_ns = now_ns();
  calls.by = control::recording() ? threads::self() : nullptr;
  if (!calls.by) return;
  calls.thread = calls.by->row;
  calls.stack = capture(*calls.by, from, skip_driver_frames);
  calls.point = torch_autograd::now();
  calls.correlation = data.correlationId;
}

// A runtime call that waits makes a driver call that waits: one wait.
void enter_wait(CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData& data) noexcept {
  if (calls.wait_depth) return;
  calls.wait = wait_of(domain, id, data);
  if (!calls.wait.kind) return;
  calls.wait_depth = calls.depth;
  calls.wait_begin_ns = now_ns();
}

void leave_wait(const CUpti_CallbackData& data) noexcept {
  if (!in_callback() || calls.wait_depth != calls.depth) return;
  if (calls.stack) write_wait(calls.wait, data.correlationId, calls.wait_begin_ns, now_ns());
  calls.wait_depth = 0;
}

// A call that only waits for a device need not be held.
void pass_gate() noexcept {
  if (calls.depth == 1 && calls.by && !calls.wait_depth) gate::enter(*calls.by);
}

// While a recording ends, calls are not recorded, but sampling still has to end.
void pass_gate_unrecorded(CUpti_CallbackDomain domain, CUpti_CallbackId id) noexcept {
  if (calls.depth || waits(domain, id)) return;
  calls.by = threads::self_if_known();
  if (calls.by) gate::enter(*calls.by);
}

void leave_call(const CUpti_CallbackData& data) noexcept {
  if (calls.depth <= 1 && calls.by) gate::leave(*calls.by);
  if (!in_callback()) return;  // entered before we subscribed
  calls.depth--;
  // An inner call is written by itself only when its records carry another id than the outer one's.
  if (!calls.stack || (calls.depth && data.correlationId == calls.correlation)) return;
  uint64_t end_ns = now_ns();
  if (!calls.wait.kind) note_launch();
  {
    threads::Use use(*calls.by);
    calls.by->launches.append({.thread = calls.thread,
                               .stack = calls.stack,
                               .api = static_cast<uint16_t>(schema::GpuApi::CUDA),
                               .autograd = calls.point.autograd,
                               .sequence = calls.point.sequence,
                               .variant = calls.variant,
                               .begin_ns = calls.begin_ns,
                               .end_ns = end_ns,
                               .correlation = correlation(data.correlationId)});
  }
  if (end_ns - calls.poked_ns < kPokeEvery) return;
  calls.poked_ns = end_ns;
  bridge::poke(end_ns);
}

void on_resource(CUpti_CallbackId id, const CUpti_ResourceData& resource) noexcept {
  switch (id) {
    case CUPTI_CBID_RESOURCE_CONTEXT_CREATED: {
      sampling::context_is_new(resource.context);
      uint32_t device = 0;
      if (cupti().GetDeviceId(resource.context, &device) != CUPTI_SUCCESS) break;
      learn_name(device);
      sampling::context_created(resource.context, device);
      leave_before_cuptis_own(CuptisOwn::SAMPLING);
      break;
    }
    case CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING:
      sampling::context_ending(resource.context);
      break;
    case CUPTI_CBID_RESOURCE_MODULE_LOADED:
      if (resource.resourceDescriptor) on_module_loaded(*static_cast<const CUpti_ModuleResourceData*>(resource.resourceDescriptor));
      break;
    case CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED:
    case CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED:
      if (resource.resourceDescriptor) on_graph_node(id, *static_cast<const CUpti_GraphData*>(resource.resourceDescriptor));
      break;
    default:
      break;
  }
}

// CUPTI ends itself after it has said so.
void on_fatal_error(const CUpti_StateData& told) noexcept {
  give_up(told.notification.message ? told.notification.message : reason(told.notification.result));
}

// `traced`: we subscribe to the runtime's launches, too. Then a launch's outermost call is the runtime's.
bool is_wanted(CUpti_CallbackDomain domain, CUpti_CallbackId id, std::string_view name, bool traced) noexcept {
  auto begins = [&](std::initializer_list<std::string_view> beginnings) {
    for (std::string_view beginning : beginnings)
      if (name.starts_with(beginning)) return true;
    return false;
  };
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    if (begins({"cuLaunch", "cuGraphLaunch", "cuMemcpy", "cuMemset"})) return name != "cuLaunchHostFunc" && name != "cuLaunchHostFunc_ptsz";
    return control::has(schema::Feature::GPU_MEMORY) &&
           (begins({"cuMemAlloc", "cuMemHostAlloc", "cuMemFree", "cuMemPool"}) || physical_memory::is_call(domain, id));
  }
  // The runtime's launches are the driver's. Its copies may reach the driver by ways of its own.
  if (begins({"cudaMemcpy", "cudaMemset"})) return true;
  if (traced && begins({"cudaLaunch", "cudaGraphLaunch"})) return !begins({"cudaLaunchHostFunc"});
  return control::has(schema::Feature::GPU_MEMORY) && begins({"cudaMalloc", "cudaHostAlloc", "cudaFree"});
}

// Calls are chosen by name, so that those of later releases are reported, too.
bool enable_api(CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain) noexcept {
  constexpr uint32_t kGap = 32;
  bool any = false, traced = tracing::wanted();
  for (uint32_t id = 1, missing = 0; id < kMostCalls && missing < kGap; id++) {
    const char* name = nullptr;
    bool known = cupti().GetCallbackName(domain, id, &name) == CUPTI_SUCCESS && name;
    missing = known ? 0 : missing + 1;
    if (!known) continue;
    bool launches = learn_wait(domain, id, name) || is_wanted(domain, id, name, traced);
    keep_launching(domain, id, launches);
    if (traced) tracing::learn(domain, id, name);
    if (launches || traced) any |= cupti().EnableCallback(1, subscriber, domain, id) == CUPTI_SUCCESS;
  }
  return any;
}

}  // namespace

bool enable_callbacks(CUpti_SubscriberHandle subscriber) noexcept {
  subscription.fetch_add(1, std::memory_order_relaxed);
  find_inner_code();
  for (uint32_t id : {CUPTI_CBID_RESOURCE_CONTEXT_CREATED, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, CUPTI_CBID_RESOURCE_MODULE_LOADED,
                      CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED})
    worked(cupti().EnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, id), "listening to contexts and modules");
  cupti().EnableCallback(1, subscriber, CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR);
  bool driver = enable_api(subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
  if (!driver) spool::note("CUDA: no launch can be listened to: kernels are recorded without their stacks");
  enable_api(subscriber, CUPTI_CB_DOMAIN_RUNTIME_API);
  return true;
}

uint64_t correlation(uint32_t id) noexcept {
  uint64_t before = subscription.load(std::memory_order_relaxed) - 1;
  return id ? before << 32 | id : 0;
}

uint32_t variant_being_launched() noexcept { return in_callback() ? calls.variant : 0; }

bool in_callback() noexcept { return calls.depth > 0 && calls.subscription == subscription.load(std::memory_order_relaxed); }

namespace {

template <bool kTraced>
__attribute__((always_inline)) inline void hear(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data, const Registers& from) noexcept {
  // While collecting comes to its end, a context that goes is heard of: it is not sampled for the last time then; and a call that returns:
  // its kernels are being written.
  if (domain == CUPTI_CB_DOMAIN_STATE) return on_fatal_error(*static_cast<const CUpti_StateData*>(data));
  bool is_resource = domain == CUPTI_CB_DOMAIN_RESOURCE;
  bool ends =
      is_resource ? id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING : static_cast<const CUpti_CallbackData*>(data)->callbackSite == CUPTI_API_EXIT;
  if (!collecting() && !ends) {
    if (!is_resource && (!kTraced || is_launching(domain, id))) pass_gate_unrecorded(domain, id);
    return;
  }
  if (is_resource) {
    tracing::Ours ours;
    return on_resource(id, *static_cast<const CUpti_ResourceData*>(data));
  }
  auto& call = *static_cast<const CUpti_CallbackData*>(data);
  bool launches = !kTraced || is_launching(domain, id);
  if (call.callbackSite == CUPTI_API_ENTER) {
    if (launches) {
      enter_call(call, from);
      if (domain == CUPTI_CB_DOMAIN_DRIVER_API && !calls.variant) calls.variant = launched_variant(id, call);
      if (is_graph_launch(domain, id)) on_graph_launch(correlation(call.correlationId));
      enter_wait(domain, id, call);
      if (physical_memory::is_call(domain, id)) calls.physical_ns = now_ns();
    }
    // Its time begins where ours ends.
    if constexpr (kTraced) tracing::enter(subscription.load(std::memory_order_relaxed), from, launches ? calls.stack : 0);
    if (launches) pass_gate();
  } else {
    if constexpr (kTraced) tracing::leave(subscription.load(std::memory_order_relaxed), domain, id, call);
    if (launches) {
      leave_wait(call);
      if (physical_memory::is_call(domain, id) && in_callback() && calls.by) physical_memory::write(id, call, calls.physical_ns);
      leave_call(call);
    }
  }
}

}  // namespace

void CUPTIAPI on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  hear<false>(domain, id, data, hooks::caller());
}

void CUPTIAPI on_traced_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  hear<true>(domain, id, data, hooks::caller());
}

}  // namespace aiflame::cuda
