// The one thread that we start, once the driver has started threads of its own: it drains samples and has records flushed, so that
// little is lost when the process is killed; and it calls CUPTI for threads that may hold any lock, those of signal handlers.
#include "base/clock.hpp"
#include "base/sys.hpp"
#include "hooks/cuda/calls.hpp"
#include "hooks/cuda/counters.hpp"
#include "hooks/cuda/device_load.hpp"
#include "hooks/cuda/internal.hpp"
#include "hooks/cuda/sampling.hpp"
#include "hooks/shared/helper_thread.hpp"

#include <linux/futex.h>
#include <algorithm>
#include <atomic>
#include <ctime>

namespace aiflame::cuda {

namespace {

constexpr uint64_t kFlushEvery = 500'000'000, kPatience = 2'000'000'000;

enum State : uint32_t {
  NONE,
  RUNNING,
  STOPPING,
  FLUSHING,  // somebody waits until all that CUPTI holds is written
};
constinit std::atomic<uint32_t> state{NONE};
thread_local bool is_worker;

void wait_for_change(uint32_t from, uint64_t ns) noexcept {
  timespec limit{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  sys::call(SYS_futex, reinterpret_cast<long>(&state), FUTEX_WAIT_PRIVATE, from, reinterpret_cast<long>(&limit));
}

void wake_all() noexcept { sys::call(SYS_futex, reinterpret_cast<long>(&state), FUTEX_WAKE_PRIVATE, 1 << 20); }

// False: it took longer.
bool wait_while(uint32_t in, uint64_t patience) noexcept {
  uint64_t begin = now_ns();
  for (uint64_t waited = 0; state.load(std::memory_order_acquire) == in; waited = now_ns() - begin) {
    if (waited >= patience) return false;
    wait_for_change(in, patience - waited);
  }
  return true;
}

void flush_all() noexcept {
  flush_activity(true);
  sampling::drain(true);
  uint32_t flushing = FLUSHING;
  state.compare_exchange_strong(flushing, RUNNING, std::memory_order_release);
  wake_all();
}

void drain_and_flush() noexcept {
  uint64_t flushed = now_ns();
  bool spared = false;
  for (uint32_t now_in = RUNNING; now_in == RUNNING || now_in == FLUSHING; now_in = state.load(std::memory_order_acquire)) {
    int relaxed = kRelaxedCaptures;
    if (!spared) spared = exchange_capture_mode(relaxed);  // the driver accepts the mode once cuInit has returned
    if (now_in == FLUSHING) {
      flush_all();
      continue;
    }
    stop_if_recording_ended();
    if (state.load(std::memory_order_acquire) != RUNNING) continue;
    uint64_t pause = std::min(sampling::drain(false), counters::read());
    uint64_t now = now_ns();
    if (now - flushed >= kFlushEvery) {
      flush_activity(false);
      choose_for_devices();
      flushed = now_ns();
    }
    uint64_t since = now_ns() - flushed, until_flush = since < kFlushEvery ? kFlushEvery - since : 0;
    wait_for_change(RUNNING, std::min(pause, until_flush));
  }
}

// The thread that waited for the worker's end may have given up, and collecting may have begun again: then the worker stays.
bool may_end() noexcept {
  uint32_t stopping = STOPPING;
  return state.compare_exchange_strong(stopping, NONE) || stopping == NONE;
}

void* work(void*) noexcept {
  is_worker = true;
  tracing::Ours ours;
  do drain_and_flush();
  while (!may_end());
  wake_all();
  return nullptr;
}

}  // namespace

void start_worker() noexcept {
  // The last one may still be on its way to its end.
  uint32_t before_us = STOPPING;
  if (state.compare_exchange_strong(before_us, RUNNING) || before_us != NONE) return;
  if (!state.compare_exchange_strong(before_us, RUNNING)) return start_worker();
  if (!hooks::start_helper_thread(work)) state.store(NONE, std::memory_order_release);
}

void stop_worker() noexcept {
  uint32_t now_in = state.load(std::memory_order_acquire);
  while ((now_in == RUNNING || now_in == FLUSHING) && !state.compare_exchange_weak(now_in, STOPPING)) continue;
  if ((now_in != RUNNING && now_in != FLUSHING) || is_worker) return;
  wake_all();
  wait_while(STOPPING, kPatience);
}

bool flush_by_worker(uint64_t patience) noexcept {
  uint32_t now_in = RUNNING;
  if (!state.compare_exchange_strong(now_in, FLUSHING) && now_in != FLUSHING) return true;
  wake_all();
  if (wait_while(FLUSHING, patience)) return true;
  now_in = FLUSHING;
  state.compare_exchange_strong(now_in, STOPPING);
  return false;
}

void forget_worker() noexcept { state.store(NONE, std::memory_order_relaxed); }

}  // namespace aiflame::cuda
