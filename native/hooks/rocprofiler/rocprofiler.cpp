#include "hooks/rocprofiler/rocprofiler.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/own_process.hpp"
#include "collector.hpp"
#include "hooks/libc/dlsym.hpp"
#include "hooks/rocprofiler/code_objects.hpp"
#include "hooks/rocprofiler/counters.hpp"
#include "hooks/rocprofiler/graphs.hpp"
#include "hooks/rocprofiler/internal.hpp"
#include "hooks/shared/caller.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <dlfcn.h>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace aiflame::rocprofiler {

namespace {

enum class State : uint8_t { ABSENT, COLLECTING, ENDED };
std::atomic<State> state{State::ABSENT};
Handle context{}, sampling_context{};

constexpr uint32_t kMostGpus = 64;
struct Gpu {
  uint64_t agent;
  char name[128], address[32];
};
AIFLAME_LARGE constinit Gpu gpus[kMostGpus]{};
uint32_t gpu_count = 0;
std::atomic<bool> addresses_written{false};

void learn(const Agent& agent) noexcept {
  if (gpu_count == kMostGpus) return;
  Gpu& gpu = gpus[gpu_count++];
  gpu.agent = agent.id.handle;
  const char* name = agent.product_name && *agent.product_name ? agent.product_name : agent.name && *agent.name ? agent.name : "GPU";
  snprintf(gpu.name, sizeof gpu.name, "%.100s [%d]", name, agent.number_of_its_type);
  snprintf(gpu.address, sizeof gpu.address, "%04X:%02X:%02X.%X", agent.domain, agent.location >> 8 & 0xff, agent.location >> 3 & 0x1f,
           agent.location & 7);
}

int32_t on_agents(int32_t, const void** agents, size_t count, void*) {
  for (size_t at = 0; at < count; at++) {
    const Agent& agent = *static_cast<const Agent*>(agents[at]);
    if (agent.size < sizeof(Agent) || agent.type != kGpu) continue;
    learn(agent);
    add_agent(agent);
    counters::add_agent(agent);
  }
  return kSuccess;
}

// CUDA's are written when a device is first used; here all are known at the start.
void write_addresses() noexcept {
  if (addresses_written.exchange(true, std::memory_order_relaxed)) return;
  for (uint32_t at = 0; at < gpu_count; at++)
    spool::append(schema::GpuDevice{.device = spool::text(gpus[at].name), .address = spool::text(gpus[at].address)});
}

void on_code(CallbackRecord record, uint64_t*, void*) {
  if (record.kind != kCodeObject || record.phase != kEnter || !record.payload || !own_process()) return;
  control::Use use;
  uint64_t size = *static_cast<const uint64_t*>(record.payload);
  if (record.operation == kLoad && size >= sizeof(CodeObject)) on_code_object(*static_cast<const CodeObject*>(record.payload));
  if (record.operation == kHostKernelSymbol && size >= sizeof(HostKernelSymbol))
    graphs::on_host_kernel(*static_cast<const HostKernelSymbol*>(record.payload));
  if (record.operation == kKernelSymbol && size >= sizeof(KernelSymbol)) on_kernel_symbol(*static_cast<const KernelSymbol*>(record.payload));
}

// rocprofiler keeps `user` of a kernel that is put into a queue, and hands it back when the kernel is complete.
void on_work(CallbackRecord record, uint64_t* user, void*) {
  if (!record.payload || !collecting()) return;
  write_addresses();
  const auto* dispatch = static_cast<const Dispatch*>(record.payload);
  if (record.kind == kKernelDispatch && record.operation == kEnqueue && record.phase == kEnter && dispatch->size >= sizeof *dispatch)
    *user = graphs::node_of(dispatch->kernel);
  bool is_given = record.phase == kEnter && (record.kind == kMemoryCopy || record.operation == kEnqueue);
  if (is_given) add_launch_without_call(launched_by(record.correlation), hooks::caller());
  if (record.kind == kKernelDispatch) counters::begin();
  if (record.kind == kKernelDispatch && record.operation == kComplete) on_dispatch(launched_by(record.correlation), *user, *dispatch);
  if (record.kind == kMemoryCopy && record.phase == kExit)
    on_copy(launched_by(record.correlation), record.operation, *static_cast<const Copy*>(record.payload));
}

bool worked(int32_t status, const char* what) noexcept {
  if (status == kSuccess) return true;
  char text[160];
  int length = snprintf(text, sizeof text, "AMD: %s failed (rocprofiler's status %d)", what, status);
  spool::note({text, static_cast<size_t>(std::clamp(length, 0, static_cast<int>(sizeof text) - 1))});
  return false;
}

// All is configured here, before rocprofiler is initialized, or never.
int initialize(void (*)(ClientId), void*) {
  if (!control::recording() || !own_process()) return -1;
  const int32_t of_kernels[] = {kEnqueue, kComplete};
  if (!worked(sdk().query_available_agents(1, on_agents, sizeof(Agent), nullptr), "listing the GPUs")) return -1;
  if (!worked(sdk().create_context(&context), "creating a context")) return -1;
  bool works = worked(sdk().configure_callback_tracing_service(context, kCodeObject, nullptr, 0, on_code, nullptr), "listening to device code") &&
               worked(sdk().configure_callback_tracing_service(context, kKernelDispatch, of_kernels, 2, on_work, nullptr), "listening to kernels");
  if (!works) return -1;
  worked(sdk().configure_callback_tracing_service(context, kMemoryCopy, nullptr, 0, on_work, nullptr), "listening to copies");
  if (!listen_to_calls(context)) spool::note("AMD: calls of HIP cannot be listened to: kernels are recorded without their stacks");
  bool counts = counters::configure();
  bool samples = !counts && control::page().gpu_sampling != static_cast<uint32_t>(schema::GpuSampling::OFF) &&
                 sdk().create_context(&sampling_context) == kSuccess && configure_sampling(sampling_context);
  bool numbered = number_work(context) && (!samples || number_work(sampling_context));
  if (control::has(schema::Feature::TRACE_HSA) && !(numbered && listen_to_hsa(context)))
    spool::note("AMD: calls of HSA cannot be traced by this rocprofiler-sdk");
  state.store(State::COLLECTING, std::memory_order_release);
  if (!worked(sdk().start_context(context), "starting")) {
    state.store(State::ENDED, std::memory_order_release);
    return -1;
  }
  if (samples) worked(sdk().start_context(sampling_context), "starting to sample");
  return 0;
}

// rocprofiler has stopped every service. Its buffers may still hold samples.
void finalize(void*) {
  if (!own_process() || state.load(std::memory_order_acquire) != State::COLLECTING) return;
  counters::end();
  flush_samples();
  state.store(State::ENDED, std::memory_order_release);
}

}  // namespace

bool collecting() noexcept { return state.load(std::memory_order_acquire) == State::COLLECTING && control::recording() && own_process(); }

uint32_t device_text(Handle agent) noexcept {
  for (uint32_t at = 0; at < gpu_count; at++)
    if (gpus[at].agent == agent.handle) return spool::text(gpus[at].name);
  return spool::text("GPU");
}

// The clocks differ by the time that the machine has slept; to read both takes some time, which must not make kernels longer or shorter.
uint64_t to_monotonic(uint64_t time) noexcept {
  constexpr uint64_t kReading = 1'000'000;
  static std::atomic<uint64_t> slept{0};
  uint64_t now = clock_ns(CLOCK_BOOTTIME) - now_ns(), known = slept.load(std::memory_order_relaxed);
  if (now - known + kReading > 2 * kReading) slept.store(known = now, std::memory_order_relaxed);
  return time - known;
}

void stop() noexcept {
  if (state.load(std::memory_order_acquire) != State::COLLECTING) return;
  counters::end();
  flush_samples();
}

// Most processes do not use HIP: to forget nothing is not to touch more memory.
void forget_rows() noexcept {
  if (state.load(std::memory_order_relaxed) == State::ABSENT) return;
  addresses_written.store(false, std::memory_order_relaxed);
  forget_functions();
  if (state.load(std::memory_order_relaxed) == State::COLLECTING) graphs::forget();
  forget_reasons();
}

void after_fork_child() noexcept {
  if (state.load(std::memory_order_relaxed) != State::ABSENT) state.store(State::ENDED, std::memory_order_relaxed);
}

}  // namespace aiflame::rocprofiler

using namespace aiflame;
using namespace aiflame::rocprofiler;

namespace {

constexpr const char* kSdk = "librocprofiler-sdk.so";

ToolConfiguration* configure(uint32_t version, const char*, uint32_t, ClientId* id) {
  if (!control::recording() || !own_process()) return nullptr;
  if (version < kOldest) {
    spool::note("AMD: rocprofiler-sdk is older than ROCm 7.0: kernels are not recorded");
    return nullptr;
  }
  if (!find(__builtin_return_address(0))) {
    spool::note("AMD: rocprofiler-sdk lacks functions that we need: kernels are not recorded");
    return nullptr;
  }
  if (id) id->name = "aiflame";
  static ToolConfiguration configuration{.size = sizeof configuration, .initialize = initialize, .finalize = finalize, .data = nullptr};
  return &configuration;
}

bool is_given(const char* variable) noexcept {
  const char* value = getenv(variable);
  return value && *value;
}

bool loads(const char* path) noexcept {
  void* library = dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
  return library && hooks::real_dlsym(library, "rocprofiler_set_api_table");
}

// Where a tool is in the process, AMD's runtime ends the program if it cannot load the SDK. It looks for it by its name and beside its own library,
// unless variables lead elsewhere: so do we, before it does. The one beside it comes first, which belongs to it.
bool can_be_loaded(const void* caller) noexcept {
  if (is_given("ROCPROFILER_REGISTER_LIBRARY") || is_given("ROCP_TOOL_LIBRARIES")) return true;
  if (hooks::real_dlsym(RTLD_DEFAULT, "rocprofiler_set_api_table")) return true;
  Dl_info runtime;
  char path[4096];
  const char* slash = dladdr(caller, &runtime) && runtime.dli_fname ? strrchr(runtime.dli_fname, '/') : nullptr;
  int folder = slash ? static_cast<int>(slash - runtime.dli_fname) : 0;
  if (slash && snprintf(path, sizeof path, "%.*s/%s", folder, runtime.dli_fname, kSdk) < static_cast<int>(sizeof path) && loads(path)) return true;
  return loads(kSdk);
}

}  // namespace

// dlsym(RTLD_DEFAULT, "rocprofiler_configure"): AMD's runtime asks so for tools, when the program loads HIP or HSA, and the SDK again. The function
// is exported nowhere, because the runtime would take that for a tool, too. nullptr: libc's dlsym() answers.
extern "C" __attribute__((visibility("hidden"), used)) void* aiflame_dlsym_rocprofiler(const char* name, const void* caller) noexcept {
  if (strcmp(name, "rocprofiler_configure") != 0) return nullptr;
  collector::start_early();
  if (!control::has(schema::Feature::ROCM) || !control::recording() || !own_process()) return nullptr;
  if (hooks::real_dlsym(RTLD_DEFAULT, name)) {
    spool::note("AMD: another tool uses rocprofiler-sdk in this program: kernels are not recorded");
    return nullptr;
  }
  if (!can_be_loaded(caller)) {
    spool::note("AMD: there is no rocprofiler-sdk for this program's ROCm: install it (package rocprofiler-sdk) to record kernels");
    return nullptr;
  }
  return reinterpret_cast<void*>(configure);
}
