#include "hooks/cuda_sampling.hpp"

#include "base/clock.hpp"
#include "base/sys.hpp"
#include "hooks/cuda.hpp"
#include "hooks/cuda_sampling_plan.hpp"
#include "hooks/cuda_sampling_records.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <algorithm>
#include <atomic>
#include <ctime>

namespace aiflame::cuda::sampling {

namespace {

// Whoever calls CUPTI for a context has `taken` its place. A thread in a callback holds locks of the driver that CUPTI may want in
// another thread's call, so nobody waits for a place without end.
enum class State : uint8_t {
  SAMPLED,
  WANTED,  // somebody waits to end it: the holder calls CUPTI no more and lets go
  GONE,    // who waited gave up, and the context with it: nobody calls CUPTI for it again
};

struct Place {
  std::atomic<CUcontext> context;  // nullptr: free
  std::atomic<State> state;
  std::atomic<bool> taken;
  Session session;
  Plan plan;
  uint32_t device;
  uint32_t failures;
  uint64_t begun_ns, fetched_ns;
  uint64_t edge_ns;  // where the next window begins
  uint64_t due_ns;
};

constexpr uint32_t kMostContexts = 64;
constexpr uint64_t kPatience = 1'000'000'000;
constexpr uint32_t kMostReads = 32, kMostFailures = 8;
constinit Place places[kMostContexts];

bool try_take(Place& place) noexcept { return !place.taken.exchange(true, std::memory_order_acquire); }
void let_go(Place& place) noexcept { place.taken.store(false, std::memory_order_release); }

bool take(Place& place) noexcept {
  timespec moment{0, 200'000};
  for (uint64_t begin = now_ns(); !try_take(place);) {
    if (now_ns() - begin > kPatience) return false;
    sys::call(SYS_nanosleep, reinterpret_cast<long>(&moment), 0);
  }
  return true;
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

// Taken, when there is one.
Place* find_free() noexcept {
  for (Place& place : places) {
    if (place.context.load(std::memory_order_acquire) || !try_take(place)) continue;
    if (!place.context.load(std::memory_order_acquire)) return &place;
    let_go(place);
  }
  return nullptr;
}

Device look_at(uint32_t ordinal) noexcept {
  constexpr int kClockRate = 13, kMultiprocessors = 16;  // CU_DEVICE_ATTRIBUTE_…
  auto ask = reinterpret_cast<int (*)(int*, int, int)>(driver_function("cuDeviceGetAttribute"));
  int clock_khz = 0, multiprocessors = 0;
  if (!ask || ask(&clock_khz, kClockRate, static_cast<int>(ordinal)) != 0 || clock_khz < 0) clock_khz = 0;
  if (!ask || ask(&multiprocessors, kMultiprocessors, static_cast<int>(ordinal)) != 0 || multiprocessors < 0) multiprocessors = 0;
  return {.multiprocessors = static_cast<uint32_t>(multiprocessors), .clock_khz = static_cast<uint32_t>(clock_khz)};
}

bool begin(Place& place, CUcontext context) noexcept {
  if (!place.session.start(context, place.plan.period(), place.plan.device_bytes())) return false;
  place.failures = 0;
  place.begun_ns = place.fetched_ns = place.edge_ns = now_ns();
  place.due_ns = place.edge_ns + place.plan.interval_ns();
  return true;
}

// Of the time since the last edge. Samples come a little late, so one that is cut short reaches back into the one before.
Window next_window(const Place& place, uint32_t period, bool is_last) noexcept {
  Window window{.device = place.device, .period = period, .begin_ns = place.edge_ns, .end_ns = now_ns()};
  if (is_last) window.begin_ns = std::max(place.begun_ns, std::min(window.begin_ns, window.end_ns - kBusyInterval));
  return window;
}

void write(const Place& place, const Window& window, const Samples& samples, Fetched* fetched) noexcept {
  const CUpti_PCSamplingData& totals = samples.totals();
  fetched->samples += count_samples(place.session.reasons(), samples);
  fetched->dropped += totals.droppedSamples;
  if (samples.size() || totals.totalSamples || totals.droppedSamples) write_window(window, place.session.reasons(), samples);
}

// All that there is, in one window. False when CUPTI did not answer as it should.
bool fetch(Place& place, bool is_last, Fetched* fetched) noexcept {
  Window window = next_window(place, place.plan.period(), is_last);
  *fetched = {.ns = window.end_ns - place.fetched_ns};
  place.fetched_ns = window.end_ns;
  uint32_t reads = 0;
  do {
    CUptiResult result = place.session.read();
    fetched->full |= result == CUPTI_ERROR_OUT_OF_MEMORY || place.session.samples().totals().hardwareBufferFull;
    fetched->overflowed |= reads > 0;
    if (result != CUPTI_SUCCESS && result != CUPTI_ERROR_OUT_OF_MEMORY) return worked(result, "fetching the GPU's samples");
    // A second read is rare, and of the same window: a row more, with the same edges.
    write(place, window, place.session.samples(), fetched);
  } while (place.session.has_more() && ++reads < kMostReads && (is_last || is_sampled(place)));
  // When nothing came, samples may be on their way.
  place.edge_ns = fetched->samples ? window.end_ns : std::max(window.begin_ns, window.end_ns - kBusyInterval);
  return true;
}

void tell_full(const Plan& plan) noexcept {
  if (control::page().gpu_sampling < kFinestPeriod)
    spool::note("the GPU's sampling buffer was full for a moment: samples of that time are missing, and a longer period is used from then on");
  else if (plan.period() < kCoarsestPeriod)
    spool::note("the GPU's sampling buffer keeps filling up: samples are missing; record with a longer --gpu-sampling period, or auto");
}

// Ends sampling, and writes what CUPTI had left.
bool end(Place& place, uint32_t period) noexcept {
  if (!place.session.stop()) {
    place.session.abandon();
    leave(place);
    return false;
  }
  Fetched fetched{};
  write(place, next_window(place, period, true), place.session.left_over(), &fetched);
  return true;
}

void finish(Place& place) noexcept {
  Fetched fetched;
  fetch(place, true, &fetched);
  if (fetched.full) tell_full(place.plan);
  if (!end(place, place.plan.period())) return;
  place.session.release();
  leave(place);
}

void start_anew(Place& place, uint32_t old_period) noexcept {
  CUcontext context = place.context.load(std::memory_order_relaxed);
  if (!is_sampled(place) || !end(place, old_period)) return;
  if (is_sampled(place) && begin(place, context)) return;
  place.session.release();
  leave(place);
}

void visit(Place& place) noexcept {
  Fetched fetched;
  bool answered = fetch(place, false, &fetched);
  place.failures = answered ? 0 : place.failures + 1;
  if (place.failures == kMostFailures && is_sampled(place)) return finish(place);
  if (fetched.full) tell_full(place.plan);
  uint32_t period = place.plan.period();
  bool anew = place.plan.observe(fetched);
  place.due_ns = place.fetched_ns + place.plan.interval_ns();
  if (anew) start_anew(place, period);
}

// False when its holder did not let go of it.
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

}  // namespace

void context_created(CUcontext context, uint32_t device) noexcept {
  uint32_t setting = control::page().gpu_sampling;
  if (!context || setting == static_cast<uint32_t>(schema::GpuSampling::OFF) || find(context)) return;
  Place* place = find_free();
  if (!place) return spool::note("GPU stalls are recorded of the first 64 contexts alone");
  place->device = device;
  place->plan = Plan(look_at(device), setting);
  place->context.store(context, std::memory_order_seq_cst);
  // stop() ends what it finds; who comes too late to be found sees that nothing is collected any more.
  if (!collecting()) {
    leave(*place);
  } else if (!begin(*place, context)) {
    place->session.release();
    leave(*place);
  }
  let_go(*place);
}

void context_ending(CUcontext context) noexcept {
  Place* place = context ? find(context) : nullptr;
  if (place && !end_soon(*place)) spool::note("a CUDA context went away while CUPTI was busy with it: its last samples are missing");
}

uint64_t drain() noexcept {
  bool any = false;
  uint64_t next = now_ns() + kIdleInterval;
  for (Place& place : places) {
    if (!place.context.load(std::memory_order_acquire) || !try_take(place)) continue;
    if (place.context.load(std::memory_order_acquire) && place.state.load(std::memory_order_acquire) == State::GONE) {
      place.session.abandon();
      leave(place);
    }
    if (place.context.load(std::memory_order_acquire) && is_sampled(place)) {
      if (place.due_ns <= now_ns()) visit(place);
      if (place.context.load(std::memory_order_relaxed)) {
        next = std::min(next, place.due_ns);
        any = true;
      }
    }
    let_go(place);
  }
  if (!any) return kBusyInterval;  // a context may come
  uint64_t now = now_ns();
  return next > now ? next - now : 0;
}

void stop() noexcept {
  for (Place& place : places)
    if (place.context.load(std::memory_order_seq_cst)) end_soon(place);
}

void forget_rows() noexcept { forget_written(); }

void after_fork_child() noexcept {
  for (Place& place : places) {
    if (place.context.load(std::memory_order_relaxed)) place.session.release();
    leave(place);
    let_go(place);
  }
}

}  // namespace aiflame::cuda::sampling
