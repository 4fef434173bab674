#include "sampler/housekeeping.hpp"

#include "base/clock.hpp"
#include "sampler/signals.hpp"
#include "sampler/threads.hpp"
#include "spool/spool.hpp"

#include <atomic>

namespace aiflame {

namespace {

constexpr uint64_t kAdoptEvery = 250'000'000, kClocksEvery = 5'000'000'000;
std::atomic<uint64_t> adopt_due{0}, clocks_due{0};

// True for one caller each time `every` has passed.
bool due(std::atomic<uint64_t>& when, uint64_t now, uint64_t every) noexcept {
  uint64_t before = when.load(std::memory_order_relaxed);
  return now >= before && when.compare_exchange_strong(before, now + every, std::memory_order_relaxed);
}

// The same moment on three clocks, as a row.
void write_clocks() noexcept {
  spool::append(schema::ClockRecord{
      .monotonic_ns = now_ns(),
      .raw_ns = clock_ns(CLOCK_MONOTONIC_RAW),
      .realtime_ns = clock_ns(CLOCK_REALTIME),
  });
}

}  // namespace

void housekeeping(uint64_t now) noexcept {
  if (due(adopt_due, now, kAdoptEvery)) {
    threads::tend();
    signals::keep();
  }
  if (due(clocks_due, now, kClocksEvery)) write_clocks();
}

}  // namespace aiflame
