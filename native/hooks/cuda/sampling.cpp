#include "hooks/cuda/sampling.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "collector.hpp"
#include "hooks/cuda/calls.hpp"
#include "hooks/cuda/counters.hpp"
#include "hooks/cuda/cuda.hpp"
#include "hooks/cuda/gate.hpp"
#include "hooks/cuda/sampling_begun.hpp"
#include "hooks/cuda/sampling_claim.hpp"
#include "hooks/cuda/sampling_plan.hpp"
#include "hooks/cuda/sampling_records.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <ctime>

namespace aiflame::cuda::sampling {

namespace {

// A thread that calls CUPTI for a context has `taken` its place. A thread in a callback holds locks of the driver that CUPTI may want in
// another thread's call, so no thread waits for a place without end.
enum class State : uint8_t {
  SAMPLED,
  WANTED,  // somebody waits to end it: the holder calls CUPTI no more and lets go
  GONE,    // the waiting thread gave up, and the context with it: nobody calls CUPTI for it again
};

struct Place {
  std::atomic<CUcontext> context;  // nullptr: free
  std::atomic<State> state;
  std::atomic<bool> taken;
  std::atomic<CUcontext> paused;  // it was sampled until pause(), nullptr: none was
  Claim claim;
  Session session;
  Plan plan;
  // CUPTI said that it cannot go on: nothing is fetched any more. Sampling is ended with the context or the recording; ending it from the
  // worker would hang a program that launches kernels meanwhile.
  bool failed;
};

// The result of one fetch.
struct Fetched {
  uint64_t samples;  // all of them, dropped ones too
  uint64_t dropped;
  bool full;  // the device's buffer had no room
};

// One for each device. Of two sampled contexts of one device, CUPTI slows the second one's launches a thousandfold, fails to fetch
// samples, and loses the records of all kernels from then on, even across two processes (`Claim`).
constexpr uint32_t kMostDevices = 64;
constexpr uint64_t kPatience = 1'000'000'000;
constexpr uint64_t kNewContextAfter = 150'000'000;  // a new context is noticed by then
constexpr uint32_t kMostReads = 32;
constexpr uint64_t kWorthTelling = 100;  // a note when one sample in so many was dropped
AIFLAME_LARGE constinit Place places[kMostDevices];

AIFLAME_LARGE constinit BegunContexts begun;

uint32_t device_of(const Place& place) noexcept { return static_cast<uint32_t>(&place - places); }

bool try_take(Place& place) noexcept { return !place.taken.exchange(true, std::memory_order_acquire); }
void let_go(Place& place) noexcept { place.taken.store(false, std::memory_order_release); }

void pause(long ns = 200'000) noexcept {
  timespec moment{0, ns};
  sys::call(SYS_nanosleep, reinterpret_cast<long>(&moment), 0);
}

bool take(Place& place) noexcept {
  for (uint64_t begin = now_ns(); !try_take(place); pause())
    if (now_ns() - begin > kPatience) return false;
  return true;
}

// Takes it, unless it has a context. A thread that holds a free place lets it go after a look, or is about to give it a context.
bool take_free(Place& place) noexcept {
  while (!place.context.load(std::memory_order_acquire)) {
    if (!try_take(place)) {
      pause();
    } else {
      if (!place.context.load(std::memory_order_acquire)) return true;
      let_go(place);
    }
  }
  return false;
}

bool is_sampled(const Place& place) noexcept { return place.state.load(std::memory_order_acquire) == State::SAMPLED; }

void leave(Place& place) noexcept {
  place.state.store(State::SAMPLED, std::memory_order_relaxed);
  place.context.store(nullptr, std::memory_order_release);
}

Place* find(CUcontext context) noexcept {
  for (Place& place : places)
    if (place.context.load(std::memory_order_acquire) == context && place.state.load(std::memory_order_acquire) != State::GONE) return &place;
  return nullptr;
}

Device look_at(uint32_t ordinal) noexcept {
  constexpr int kClockRate = 13, kMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_…
  auto ask = reinterpret_cast<int (*)(int*, int, int)>(driver_function("cuDeviceGetAttribute"));
  tracing::Ours ours;
  int clock_khz = 0, multiprocessors = 0;
  if (!ask || ask(&clock_khz, kClockRate, static_cast<int>(ordinal)) != 0 || clock_khz < 0) clock_khz = 0;
  if (!ask || ask(&multiprocessors, kMultiprocessors, static_cast<int>(ordinal)) != 0 || multiprocessors < 0) multiprocessors = 0;
  return {.multiprocessors = static_cast<uint32_t>(multiprocessors), .clock_khz = static_cast<uint32_t>(clock_khz)};
}

void tell_failed(CUptiResult result) noexcept {
  char text[256];
  snprintf(text, sizeof text, "GPU stalls are not recorded from here on: CUPTI says: %s", reason(result));
  spool::note(text);
}

// Each once.
void tell_missing(const Fetched& fetched) noexcept {
  // CUPTI does not say whether it goes on after that.
  if (fetched.full)
    spool::note("the GPU's sampling buffer was full: stalls are missing, perhaps all from here on; record with a longer --gpu-sampling period");
  if (fetched.dropped * kWorthTelling > fetched.samples)
    spool::note("the GPU dropped many of its stall samples (the profile has their number): record with a longer --gpu-sampling period");
}

// How long a launch may take that had begun before others were held.
constexpr uint64_t kLaunchPatience = 50'000'000;
// For all devices together. Launches pass half of that time: one that takes long may wait for another one.
constexpr uint64_t kPatienceToEnd = 2'000'000'000;

bool begin(Place& place, CUcontext context) noexcept {
  if (!place.claim.take(device_of(place))) {
    spool::note("GPU stalls are recorded of one process a device: those of this one are missing, another on the same GPU is being recorded");
    return false;
  }
  if (!begun.has(context) && !begun.remember(context)) {
    spool::note("GPU stalls are recorded of the first 256 CUDA contexts alone");
    return false;
  }
  bool started = place.session.start(context, place.plan);
  if (!place.session.was_enabled()) begun.forget(context);
  if (!started) return false;
  place.failed = false;
  place.plan.begin(now_ns());
  return true;
}

Window window_until(const Place& place, uint64_t now) noexcept {
  Stretch stretch = place.plan.window(now);
  return {.device = device_of(place), .period = place.plan.period(), .begin_ns = stretch.begin_ns, .end_ns = stretch.end_ns};
}

void write(const Place& place, const Window& window, const Samples& samples) noexcept {
  if (samples.size() || samples.totals().totalSamples) write_window(window, place.session.reasons(), samples);
}

// All that there is, in one window.
void fetch(Place& place, bool is_last) noexcept {
  uint64_t now = now_ns();
  Window window = window_until(place, now);
  Fetched fetched{};
  uint32_t reads = 0;
  do {
    CUptiResult result = place.session.read();
    Samples samples = place.session.samples();
    fetched.full |= result == CUPTI_ERROR_OUT_OF_MEMORY || samples.totals().hardwareBufferFull;
    if (result == CUPTI_ERROR_NOT_READY) break;
    if (result != CUPTI_SUCCESS && result != CUPTI_ERROR_OUT_OF_MEMORY) {
      place.failed = true;
      // Seen on an H200 beside another process that sampled: CUPTI had ended itself, and crashed when it was asked for more.
      if (result == CUPTI_ERROR_UNKNOWN)
        give_up("while it fetched stall samples: is another tool sampling the GPU? --gpu-sampling off does without them");
      else
        tell_failed(result);
      break;
    }
    fetched.samples += samples.totals().totalSamples;
    fetched.dropped += samples.totals().droppedSamples;
    // A second read is rare, and of the same window: a row more, with the same edges.
    write(place, window, samples);
  } while (place.session.has_more() && ++reads < kMostReads && (is_last || is_sampled(place)));
  place.plan.looked(fetched.samples > 0, now);
  tell_missing(fetched);
}

// Ends sampling, and writes the samples that were not fetched yet.
void finish(Place& place) noexcept {
  if (!place.failed) fetch(place, true);
  if (may_call_cupti() && place.session.stop()) {
    write(place, window_until(place, now_ns()), place.session.left_over());
    place.session.release();
    place.claim.release();
  } else {
    place.session.abandon();
  }
  leave(place);
}

// False when the thread that holds the place did not let go of it.
bool end_soon(Place& place) noexcept {
  State sampled = State::SAMPLED;
  place.state.compare_exchange_strong(sampled, State::WANTED, std::memory_order_acq_rel);
  if (!take(place)) {
    place.state.store(State::GONE, std::memory_order_release);
    return false;
  }
  if (place.context.load(std::memory_order_acquire)) {
    if (place.state.load(std::memory_order_acquire) == State::GONE) {
      place.session.abandon();
      leave(place);
    } else {
      finish(place);
    }
  }
  let_go(place);
  return true;
}

// A device counts, or its warps are sampled.
bool counts_instead() noexcept {
  auto counters = static_cast<schema::GpuCounters>(control::page().gpu_counters);
  bool samples = control::page().gpu_sampling != static_cast<uint32_t>(schema::GpuSampling::OFF);
  return counters == schema::GpuCounters::ON || (counters == schema::GpuCounters::AUTO && !samples);
}

// A thread that is about to sample it again finds it gone.
void forget_paused(CUcontext context) noexcept {
  for (Place& place : places) {
    CUcontext same = context;
    if (context) place.paused.compare_exchange_strong(same, nullptr);
  }
}

// The device's place, taken, with its plan; nullptr: the context is not to be sampled, or is already.
Place* take_for(CUcontext context, uint32_t device) noexcept {
  uint32_t setting = control::page().gpu_sampling;
  const char* against = nullptr;
  if (!context) return nullptr;
  if (counts_instead()) return counters::want(device, true), nullptr;
  if (setting == static_cast<uint32_t>(schema::GpuSampling::OFF) || find(context)) return nullptr;
  if (begun.has(context))
    against =
        "GPU stalls are not recorded any more: sampling ended for another tool that used CUPTI, or with an earlier recording; to begin again "
        "could hang the program";
  else if (device >= kMostDevices)
    against = "GPU stalls are recorded of the first 64 devices alone";
  else if (paused(device) || counters::busy(device))
    return nullptr;
  else if (!take_free(places[device]))
    against = "GPU stalls are recorded of one CUDA context a device: those of its other contexts are missing";
  if (against) return spool::note(against), nullptr;
  places[device].plan = Plan(look_at(device), setting);
  return &places[device];
}

// Nothing is sampled after all.
void undo(Place& place) noexcept {
  place.session.release();
  place.claim.release();
  leave(place);
}

// Where the process goes on after the recording, a launch that takes longer leaves sampling on, since to end it could hang the program.
void end_beside_launches(Place& place, uint64_t until_ns) noexcept {
  do {
    if (gate::Closed held(kLaunchPatience); held || !collector::attached()) return static_cast<void>(end_soon(place));
    pause(kLaunchPatience);
  } while (now_ns() < until_ns);
  spool::note("the sampling of GPU stalls could not end beside a launch that took seconds: each launch may take a microsecond longer from here on");
  if (!take(place)) return;
  place.session.abandon();
  leave(place);
  let_go(place);
}

}  // namespace

void context_created(CUcontext context, uint32_t device) noexcept {
  Place* place = take_for(context, device);
  if (!place) return;
  place->context.store(context, std::memory_order_seq_cst);
  // stop() ends every session it finds. A context that is added after that sees collecting() == false and starts none.
  if (!collecting())
    leave(*place);
  else if (!begin(*place, context))
    undo(*place);
  let_go(*place);
}

void context_found(CUcontext context, uint32_t device) noexcept {
  Place* place = take_for(context, device);
  if (!place) return;
  place->paused.store(context, std::memory_order_seq_cst);
  let_go(*place);
  if (!collector::attached()) resume(device);
}

void context_ending(CUcontext context) noexcept {
  forget_paused(context);
  Place* place = context ? find(context) : nullptr;
  if (place && !end_soon(*place)) spool::note("a CUDA context went away while CUPTI was busy with it: its last samples are missing");
  forget_paused(context);  // sampling may have been on its way to a pause
  begun.forget(context);
}

void context_is_new(CUcontext context) noexcept { begun.forget(context); }

uint64_t drain(bool all) noexcept {
  if (!may_call_cupti()) return kNewContextAfter;
  uint64_t next = now_ns() + kNewContextAfter;
  for (Place& place : places) {
    if (!place.context.load(std::memory_order_acquire) || !try_take(place)) continue;
    if (place.context.load(std::memory_order_acquire)) {
      if (place.state.load(std::memory_order_acquire) == State::GONE) {
        place.session.abandon();
        leave(place);
      } else if (is_sampled(place) && !place.failed) {
        if (all || place.plan.due_ns() <= now_ns()) fetch(place, false);
        next = std::min(next, place.plan.due_ns());
      }
    }
    let_go(place);
  }
  uint64_t now = now_ns();
  return next > now ? next - now : 0;
}

bool pause(uint32_t device) noexcept {
  Place& place = places[device];
  CUcontext context = place.context.load(std::memory_order_acquire);
  if (!context || !try_take(place)) return false;
  bool ended = false;
  if (gate::Closed held(kLaunchPatience); held && place.context.load(std::memory_order_acquire) == context && is_sampled(place)) {
    // First: at each moment a thread that ends the context finds it in one of the two.
    place.paused.store(context, std::memory_order_seq_cst);
    finish(place);
    ended = true;
  }
  let_go(place);
  return ended;
}

bool resume(uint32_t device) noexcept {
  Place& place = places[device];
  CUcontext context = place.paused.load(std::memory_order_acquire);
  if (!context || !try_take(place)) return false;
  bool samples = false;
  if (gate::Closed held(kLaunchPatience); held && !place.context.load(std::memory_order_acquire) && collecting()) {
    // A thread that ends the context finds it in one of the two, and waits for this place.
    place.context.store(context, std::memory_order_seq_cst);
    samples = place.paused.exchange(nullptr, std::memory_order_seq_cst) == context && begin(place, context);
    if (!samples) undo(place);
  }
  let_go(place);
  if (samples) leave_before_cuptis_own(CuptisOwn::SAMPLING);
  return samples;
}

bool sampled(uint32_t device) noexcept { return places[device].context.load(std::memory_order_acquire) != nullptr; }
bool paused(uint32_t device) noexcept { return places[device].paused.load(std::memory_order_acquire) != nullptr; }

void stop() noexcept {
  uint64_t until_ns = now_ns() + kPatienceToEnd;
  for (Place& place : places) {
    place.paused.store(nullptr, std::memory_order_release);
    if (place.context.load(std::memory_order_seq_cst)) end_beside_launches(place, until_ns);
  }
}

bool any() noexcept {
  for (const Place& place : places)
    if (place.context.load(std::memory_order_seq_cst)) return true;
  return false;
}

void forget_rows() noexcept { forget_written(); }

void after_fork_child() noexcept {
  for (Place& place : places) {
    if (place.context.load(std::memory_order_relaxed)) place.session.release();
    place.claim.release();
    place.paused.store(nullptr, std::memory_order_relaxed);
    leave(place);
    let_go(place);
  }
}

}  // namespace aiflame::cuda::sampling
