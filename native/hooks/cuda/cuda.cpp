#include "hooks/cuda/cuda.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "collector.hpp"
#include "hooks/cuda/calls.hpp"
#include "hooks/cuda/counters.hpp"
#include "hooks/cuda/device_load.hpp"
#include "hooks/cuda/gate.hpp"
#include "hooks/cuda/internal.hpp"
#include "hooks/cuda/life.hpp"
#include "hooks/cuda/sampling.hpp"
#include "hooks/cuda/sharing.hpp"
#include "hooks/shared/exported.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <sched.h>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <span>

namespace aiflame::cuda {

namespace {

constinit std::atomic<LifeState> state{LifeState::ABSENT};
constinit std::atomic<uint32_t> changing{0};  // thread that changes the state
// CUPTI did not return in time (a kernel hangs, perhaps): we leave the state change unfinished, and begin no other.
constinit std::atomic<bool> given_up{false};
constexpr uint64_t kPatience = 2'000'000'000, kPatienceAtExit = 5'000'000'000;
CUpti_SubscriberHandle subscriber;
constinit std::atomic<bool> has_activity{false};

constexpr uint32_t kMostDevices = 64;
enum class Name : uint8_t { UNKNOWN, BEING_WRITTEN, KNOWN };
constinit std::atomic<Name> names_known[kMostDevices];
constexpr size_t kLongestName = 128;
AIFLAME_LARGE char device_names[kMostDevices][kLongestName];

bool write_name(char (&name)[kLongestName], uint32_t ordinal) noexcept {
  constexpr int kMost = 100;
  tracing::Ours ours;
  auto get_name = reinterpret_cast<int (*)(char*, int, int)>(driver_function("cuDeviceGetName"));
  bool known = get_name && get_name(name, kMost, static_cast<int>(ordinal)) == 0;
  if (!known) strcpy(name, "GPU");
  size_t length = strnlen(name, kMost);
  snprintf(name + length, sizeof name - length, " [%u]", ordinal);
  return known;
}

// CUDA numbers the devices that a process may see; the PCI address says which of the machine's devices it is. Written anew in each
// recording.
void tell_address(uint32_t ordinal) noexcept {
  auto get_address = reinterpret_cast<int (*)(char*, int, int)>(driver_function("cuDeviceGetPCIBusId"));
  char address[32] = "";
  tracing::Ours ours;
  if (!get_address || get_address(address, sizeof address, static_cast<int>(ordinal)) != 0) return;
  spool::append(schema::GpuDevice{.device = device_text(ordinal), .address = spool::text({address, strnlen(address, sizeof address)})});
}

bool subscribe() noexcept {
  auto* function = tracing::wanted() ? on_traced_callback : on_callback;
  CUptiResult result = cupti().Subscribe(&subscriber, reinterpret_cast<CUpti_CallbackFunc>(function), nullptr);
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    spool::note("another tool uses CUPTI in this program: GPU kernels are not recorded");
    return false;
  }
  return worked(result, "subscribing to CUPTI") && enable_callbacks(subscriber);
}

// Writes the names of devices, and takes up the primary contexts that existed before CUPTI reported any. Contexts that the program had
// made itself before that stay unknown.
void look_at_devices() noexcept {
  auto count = reinterpret_cast<int (*)(int*)>(driver_function("cuDeviceGetCount"));
  auto active = reinterpret_cast<int (*)(int, unsigned*, int*)>(driver_function("cuDevicePrimaryCtxGetState"));
  auto retain = reinterpret_cast<int (*)(CUcontext*, int)>(driver_function("cuDevicePrimaryCtxRetain"));
  auto release = reinterpret_cast<int (*)(int)>(driver_function("cuDevicePrimaryCtxRelease_v2"));
  int devices = 0;
  tracing::Ours ours;
  if (!count || count(&devices) != 0) return;
  for (int device = 0; device < devices; device++) learn_name(static_cast<uint32_t>(device));
  if (!active || !retain || !release) return;
  for (int device = 0; device < devices; device++) {
    unsigned flags = 0;
    int is_active = 0;
    CUcontext context = nullptr;
    if (active(device, &flags, &is_active) != 0 || !is_active || retain(&context, device) != 0) continue;
    sampling::context_found(context, static_cast<uint32_t>(device));
    release(device);
  }
}

bool take(LifeStep step) noexcept {
  switch (step) {
    case LifeStep::NONE:
      return true;
    case LifeStep::SUBSCRIBE:
      return subscribe();
    case LifeStep::ENABLE_ACTIVITY:
      has_activity.store(true, std::memory_order_relaxed);
      return enable_activity();
    case LifeStep::START_SAMPLING:
      look_at_devices();
      return true;
    case LifeStep::START_WORKER:
      start_worker();
      return true;
    case LifeStep::STOP_WORKER:
      stop_worker();
      return true;
    case LifeStep::STOP_SAMPLING:
      sampling::stop();
      counters::stop();
      return true;
    case LifeStep::FLUSH:
      flush_activity(true);
      give_clock_back();
      return true;
    case LifeStep::DISABLE_ACTIVITY:
      disable_activity();
      return true;
    case LifeStep::UNSUBSCRIBE:
      return worked(cupti().Unsubscribe(subscriber), "unsubscribing from CUPTI");
    case LifeStep::FORGET:
      forget_worker();
      sampling::after_fork_child();
      counters::after_fork_child();
      gate::after_fork_child();
      return true;
  }
  return false;
}

// One change at a time; a change within a change (CUPTI calls back during a step) is ignored.
class Changing {
 public:
  enum class Patience : uint8_t { WAITS, NONE };

  explicit Changing(Patience patience) noexcept {
    uint32_t self = sys::thread_id();
    if (changing.load(std::memory_order_relaxed) == self) return;
    do {
      uint32_t nobody = 0;
      holds_ = changing.compare_exchange_strong(nobody, self, std::memory_order_acquire);
    } while (!holds_ && patience == Patience::WAITS && sched_yield() == 0);
  }
  ~Changing() {
    if (holds_) changing.store(0, std::memory_order_release);
  }
  Changing(const Changing&) = delete;
  Changing& operator=(const Changing&) = delete;
  explicit operator bool() const noexcept { return holds_; }

 private:
  bool holds_ = false;
};
using Patience = Changing::Patience;

void tell_user(const char* tool) noexcept {
  char text[256];
  int length = snprintf(text, sizeof text, "%s uses CUPTI: GPU kernels are not recorded until it has finished", tool);
  spool::note({text, static_cast<size_t>(length)});
}

// A beginning that failed there: CUPTI is as it was.
void undo(LifeStep failed) noexcept {
  state.store(LifeState::STOPPED, std::memory_order_release);
  if (failed != LifeStep::ENABLE_ACTIVITY) return;
  take(LifeStep::DISABLE_ACTIVITY);
  take(LifeStep::FLUSH);
  take(LifeStep::UNSUBSCRIBE);
}

void happen(LifeEvent event, Patience patience = Patience::WAITS) noexcept {
  if (!may_call_cupti()) return;
  Changing lock(patience);
  if (!lock || !may_call_cupti()) return;
  bool begins = event == LifeEvent::START || event == LifeEvent::REGAIN;
  if (begins && sharing::in_use()) return tell_user(sharing::user());
  LifeChange change = life_change(state.load(std::memory_order_relaxed), event);
  // Launches are heard of until device activity is recorded no more: no kernel without its launch.
  bool ends = change.steps[0] == LifeStep::DISABLE_ACTIVITY;
  if (ends) take(LifeStep::DISABLE_ACTIVITY);
  state.store(change.next, std::memory_order_release);
  for (LifeStep step : std::span(change.steps).subspan(ends))
    if (may_call_cupti() && !take(step) && change.next == LifeState::COLLECTING) return undo(step);
}

// Waits until the thread that changes the state has finished. False: it took longer.
bool settled(uint64_t patience) noexcept {
  timespec moment{0, 200'000};
  for (uint64_t begin = now_ns(); changing.load(std::memory_order_acquire); sys::call(SYS_nanosleep, reinterpret_cast<long>(&moment), 0))
    if (now_ns() - begin >= patience) return false;
  return true;
}

// Flushes without a call to CUPTI in this thread. If CUPTI does not answer in time, we give it up.
void flush_elsewhere(uint64_t patience) noexcept {
  if (!may_call_cupti()) return;
  if (!settled(patience) || !flush_by_worker(patience) || !settled(patience)) given_up.store(true, std::memory_order_release);
}

bool changes_it() noexcept { return changing.load(std::memory_order_relaxed) == sys::thread_id(); }

// The driver is in the process and cuInit has run.
bool is_in_use() noexcept {
  find_driver();
  auto count = reinterpret_cast<int (*)(int*)>(driver_function("cuDeviceGetCount"));
  int devices = 0;
  tracing::Ours ours;
  return count && count(&devices) == 0;
}

// At exit, before the driver's own handler, which it registered before it called us or answered us: handlers run backwards.
void leave_at_exit() noexcept {
  static std::atomic<bool> registered{false};
  if (!registered.exchange(true)) atexit([] { leave(); });
}

bool wanted() noexcept { return control::has(schema::Feature::CUDA) && control::recording() && own_process(); }

// The driver loads one tool. Nsight Systems, for one, names itself where we were named.
void tell_if_taken() noexcept {
  const char* tool = getenv("CUDA_INJECTION64_PATH");
  if (!tool || !*tool || strstr(tool, "aiflame") || state.load() != LifeState::ABSENT || !wanted()) return;
  find_driver();
  if (!driver_function("cuInit")) return;
  char text[512];
  int length = snprintf(text, sizeof text, "CUDA loaded %.300s in our place (CUDA_INJECTION64_PATH): GPU kernels are not recorded", tool);
  spool::note({text, static_cast<size_t>(length)});
}

// `aiflame attach` calls us in a thread of its own.
class SparingCaptures {
 public:
  explicit SparingCaptures(bool calls) noexcept : exchanged_(calls && collector::attached() && exchange_capture_mode(mode_)) {}
  ~SparingCaptures() {
    if (exchanged_) exchange_capture_mode(mode_);
  }
  SparingCaptures(const SparingCaptures&) = delete;
  SparingCaptures& operator=(const SparingCaptures&) = delete;

 private:
  int mode_ = kRelaxedCaptures;
  bool exchanged_;
};

}  // namespace

bool exchange_capture_mode(int& mode) noexcept {
  auto exchange = reinterpret_cast<int (*)(int*)>(driver_function("cuThreadExchangeStreamCaptureMode"));
  return !exchange || exchange(&mode) == 0;
}

void start() noexcept {
  if (!wanted() || !is_in_use() || !load_cupti()) return;
  leave_at_exit();
  SparingCaptures sparing(true);
  happen(LifeEvent::START);
}

void stop() noexcept {
  tell_if_taken();
  SparingCaptures sparing(collecting());
  if (!in_callback()) happen(LifeEvent::STOP);
}

// A thread that changes the state meanwhile may be waiting for the worker. Sampling cannot be ended from the worker (it hangs beside
// threads that launch kernels): then only activity records end here, which cost most.
void stop_if_recording_ended() noexcept {
  if (control::recording() || !collecting()) return;
  if (!sampling::any()) return happen(LifeEvent::STOP, Patience::NONE);
  if (Changing lock(Patience::NONE); lock && collecting() && may_call_cupti() && has_activity.exchange(false)) take(LifeStep::DISABLE_ACTIVITY);
}

void flush_anywhere() noexcept {
  if (!in_callback() && !changes_it()) flush_elsewhere(kPatience);
}

// Handlers that run at exit may call CUPTI, unless it does not answer any more.
void leave() noexcept {
  if (in_callback() || changes_it()) return;
  flush_elsewhere(kPatienceAtExit);
  happen(LifeEvent::EXIT);
}

// And before the handlers of libraries that CUPTI loads when it first samples or counts: a call after those has ended in "double free".
void leave_before_cuptis_own(CuptisOwn use) noexcept {
  static std::atomic<bool> registered[2]{};
  if (!registered[static_cast<size_t>(use)].exchange(true)) atexit([] { leave(); });
}

void give_up(const char* why) noexcept {
  if (given_up.exchange(true)) return;
  char text[512];
  int length = snprintf(text, sizeof text, "GPU kernels are not recorded from here on: CUPTI ended itself after an error (%.300s)", why);
  spool::note({text, static_cast<size_t>(length)});
}

bool may_call_cupti() noexcept { return !given_up.load(std::memory_order_acquire); }

void forget_rows() noexcept {
  sampling::forget_rows();
  forget_loads();
}

void after_fork_child() noexcept {
  changing.store(0, std::memory_order_relaxed);
  given_up.store(false, std::memory_order_relaxed);
  sharing::after_fork_child();
  if (state.load(std::memory_order_relaxed) != LifeState::ABSENT) happen(LifeEvent::FORK_CHILD);
}

void yield_to(const char* tool) noexcept {
  if (collecting()) tell_user(tool);
  happen(LifeEvent::YIELD);  // also when another thread is at it: this one waits
}

void regain() noexcept {
  if (!wanted()) return;
  happen(LifeEvent::REGAIN);
  if (!collecting()) start();
}

bool may_return() noexcept {
  LifeState now = state.load(std::memory_order_acquire);
  return now != LifeState::COLLECTING && now != LifeState::GONE && wanted();
}

bool collecting() noexcept { return state.load(std::memory_order_acquire) == LifeState::COLLECTING; }

void learn_name(uint32_t ordinal) noexcept {
  Name unknown = Name::UNKNOWN;
  if (ordinal >= kMostDevices) return;
  if (names_known[ordinal].compare_exchange_strong(unknown, Name::BEING_WRITTEN)) {
    bool known = write_name(device_names[ordinal], ordinal);
    names_known[ordinal].store(known ? Name::KNOWN : Name::UNKNOWN, std::memory_order_release);
  }
  tell_address(ordinal);
}

uint32_t device_text(uint32_t ordinal) noexcept {
  if (ordinal >= kMostDevices) return spool::text("[unknown device]");
  if (names_known[ordinal].load(std::memory_order_acquire) == Name::KNOWN)
    return spool::text({device_names[ordinal], strnlen(device_names[ordinal], kLongestName)});
  // The device of a context that was made before recording began.
  char name[kLongestName];
  write_name(name, ordinal);
  return spool::text({name, strnlen(name, sizeof name)});
}

}  // namespace aiflame::cuda

using namespace aiflame;

// From the agent, in cuInit.
AIFLAME_EXPORT int aiflame_cuda_initialize() noexcept {
  if (!cuda::wanted() || !cuda::load_cupti()) return 1;
  cuda::leave_at_exit();
  cuda::happen(cuda::LifeEvent::START);
  return 1;
}
