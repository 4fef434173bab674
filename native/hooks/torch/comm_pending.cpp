#include "hooks/torch/comm_pending.hpp"

#include "base/large.hpp"

#include <atomic>

namespace aiflame::torch_comm {

namespace {

// The thread that changes `work` from another value to kBusy owns the place until the next store.
struct Place {
  std::atomic<uint64_t> work;  // 0: free
  Pending pending;
};
constexpr uint64_t kBusy = 1;
constexpr uint64_t kPlaces = 1 << 12, kNear = 32;
AIFLAME_LARGE constinit Place places[kPlaces];

Place& near(uint64_t work, uint64_t step) noexcept { return places[(((work >> 4) * 0x9e3779b97f4a7c15 >> 32) + step) % kPlaces]; }

bool own(Place& place, uint64_t from) noexcept {
  return place.work.load(std::memory_order_relaxed) == from && place.work.compare_exchange_strong(from, kBusy, std::memory_order_acq_rel);
}

}  // namespace

bool add(uint64_t work, const Pending& pending, Pending* stale) noexcept {
  stale->function = nullptr;
  take(work, stale);
  for (uint64_t step = 0; step < kNear; step++) {
    Place& place = near(work, step);
    if (!own(place, 0)) continue;
    place.pending = pending;
    place.work.store(work, std::memory_order_release);
    return true;
  }
  return false;
}

bool take(uint64_t work, Pending* pending) noexcept {
  for (uint64_t step = 0; step < kNear; step++) {
    Place& place = near(work, step);
    if (!own(place, work)) continue;
    *pending = place.pending;
    place.work.store(0, std::memory_order_release);
    return true;
  }
  return false;
}

uint32_t group_of(uint64_t work) noexcept {
  for (uint64_t step = 0; step < kNear; step++) {
    Place& place = near(work, step);
    if (place.work.load(std::memory_order_acquire) != work) continue;
    uint32_t group = std::atomic_ref(place.pending.outcome.group).load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    return place.work.load(std::memory_order_relaxed) == work ? group : 0;
  }
  return 0;
}

}  // namespace aiflame::torch_comm
