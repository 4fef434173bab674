// The one thread that we start, once the driver has started threads of its own: it drains samples and has records flushed, so that
// little is lost when the process is killed.
#include "base/clock.hpp"
#include "base/sys.hpp"
#include "hooks/cuda_parts.hpp"
#include "hooks/cuda_sampling.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <atomic>
#include <ctime>

namespace aiflame::cuda {

namespace {

constexpr uint64_t kFlushEvery = 500'000'000, kPatience = 2'000'000'000;

enum State : uint32_t { NONE, RUNNING, STOPPING };
constinit std::atomic<uint32_t> state{NONE};

void wait_for_change(uint32_t from, uint64_t ns) noexcept {
  timespec limit{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  sys::call(SYS_futex, reinterpret_cast<long>(&state), FUTEX_WAIT_PRIVATE, from, reinterpret_cast<long>(&limit));
}

void change(uint32_t to) noexcept {
  state.store(to, std::memory_order_release);
  sys::call(SYS_futex, reinterpret_cast<long>(&state), FUTEX_WAKE_PRIVATE, 1 << 20);
}

void* work(void*) noexcept {
  uint64_t flushed = now_ns();
  while (state.load(std::memory_order_acquire) == RUNNING) {
    uint64_t pause = sampling::drain();
    uint64_t now = now_ns();
    if (now - flushed >= kFlushEvery) {
      flush_activity(false);
      flushed = now_ns();
    }
    uint64_t since = now_ns() - flushed, until_flush = since < kFlushEvery ? kFlushEvery - since : 0;
    wait_for_change(RUNNING, pause < until_flush ? pause : until_flush);
  }
  change(NONE);
  return nullptr;
}

}  // namespace

void start_worker() noexcept {
  uint32_t none = NONE;
  if (!state.compare_exchange_strong(none, RUNNING)) return;
  // The program's signals are none of this thread's business.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  if (pthread_create(&thread, &attributes, work, nullptr) == 0)
    pthread_setname_np(thread, "aiflame");
  else
    state.store(NONE, std::memory_order_release);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void stop_worker() noexcept {
  uint32_t running = RUNNING;
  if (!state.compare_exchange_strong(running, STOPPING)) return;
  change(STOPPING);
  for (uint64_t begin = now_ns(); state.load(std::memory_order_acquire) == STOPPING && now_ns() - begin < kPatience;)
    wait_for_change(STOPPING, kPatience);
}

void forget_worker() noexcept { state.store(NONE, std::memory_order_relaxed); }

}  // namespace aiflame::cuda
