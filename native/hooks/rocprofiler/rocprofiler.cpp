#include "hooks/rocprofiler/rocprofiler.hpp"

#include "base/clock.hpp"
#include "collector.hpp"
#include "hooks/rocprofiler/code_objects.hpp"
#include "hooks/rocprofiler/internal.hpp"
#include "hooks/shared/exported.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
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
Gpu gpus[kMostGpus];
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
  if (record.operation == kKernelSymbol && size >= sizeof(KernelSymbol)) on_kernel_symbol(*static_cast<const KernelSymbol*>(record.payload));
}

void on_work(CallbackRecord record, uint64_t*, void*) {
  if (!record.payload || !collecting()) return;
  write_addresses();
  if (record.kind == kKernelDispatch && record.operation == kComplete)
    on_dispatch(record.correlation.internal, *static_cast<const Dispatch*>(record.payload));
  if (record.kind == kMemoryCopy && record.phase == kExit)
    on_copy(record.correlation.internal, record.operation, *static_cast<const Copy*>(record.payload));
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
  const int32_t complete = kComplete;
  if (!worked(sdk().query_available_agents(1, on_agents, sizeof(Agent), nullptr), "listing the GPUs")) return -1;
  if (!worked(sdk().create_context(&context), "creating a context")) return -1;
  bool works = worked(sdk().configure_callback_tracing_service(context, kCodeObject, nullptr, 0, on_code, nullptr), "listening to device code") &&
               worked(sdk().configure_callback_tracing_service(context, kKernelDispatch, &complete, 1, on_work, nullptr), "listening to kernels");
  if (!works) return -1;
  worked(sdk().configure_callback_tracing_service(context, kMemoryCopy, nullptr, 0, on_work, nullptr), "listening to copies");
  if (!listen_to_calls(context)) spool::note("AMD: calls of HIP cannot be listened to: kernels are recorded without their stacks");
  bool samples = control::page().gpu_sampling != static_cast<uint32_t>(schema::GpuSampling::OFF) &&
                 sdk().create_context(&sampling_context) == kSuccess && configure_sampling(sampling_context);
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
  if (state.load(std::memory_order_acquire) == State::COLLECTING) flush_samples();
}

void forget_rows() noexcept {
  addresses_written.store(false, std::memory_order_relaxed);
  forget_functions();
  forget_reasons();
}

void after_fork_child() noexcept { state.store(State::ENDED, std::memory_order_relaxed); }

}  // namespace aiflame::rocprofiler

using namespace aiflame;
using namespace aiflame::rocprofiler;

// Where the program loads HIP or HSA, each library with a function of this name may become a tool. nullptr: we do not.
AIFLAME_EXPORT ToolConfiguration* rocprofiler_configure(uint32_t version, const char*, uint32_t, ClientId* id) {
  collector::start_early();
  if (!control::has(schema::Feature::ROCM) || !control::recording() || !own_process()) return nullptr;
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
