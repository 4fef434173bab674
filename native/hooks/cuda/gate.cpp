#include "hooks/cuda/gate.hpp"

#include "base/clock.hpp"
#include "base/fences.hpp"
#include "base/sys.hpp"

#include <linux/futex.h>
#include <ctime>

namespace aiflame::cuda::gate {

constinit std::atomic<uint32_t> closed{0};

namespace {

// Beginning takes up to 170 ms where CUPTI loads a library for it.
constexpr uint64_t kLongest = 2'000'000'000;

timespec span(uint64_t ns) noexcept { return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)}; }

}  // namespace

bool await() noexcept {
  uint64_t begin = now_ns();
  while (closed.load(std::memory_order_acquire)) {
    uint64_t waited = now_ns() - begin;
    if (waited >= kLongest) return false;
    timespec left = span(kLongest - waited);
    sys::call(SYS_futex, reinterpret_cast<long>(&closed), FUTEX_WAIT_PRIVATE, 1, reinterpret_cast<long>(&left));
  }
  return true;
}

Closed::Closed(uint64_t patience) noexcept {
  uint32_t open_now = 0;
  holds_ = closed.compare_exchange_strong(open_now, 1);
  if (!holds_) return;
  let_stores_arrive();
  timespec moment = span(100'000);
  for (uint64_t begin = now_ns(); holds_ && threads::any_launching(); sys::call(SYS_nanosleep, reinterpret_cast<long>(&moment), 0))
    if (now_ns() - begin > patience) open();
}

void Closed::open() noexcept {
  if (!holds_) return;
  holds_ = false;
  closed.store(0, std::memory_order_release);
  sys::call(SYS_futex, reinterpret_cast<long>(&closed), FUTEX_WAKE_PRIVATE, 1 << 20);
}

void after_fork_child() noexcept { closed.store(0, std::memory_order_relaxed); }

}  // namespace aiflame::cuda::gate
