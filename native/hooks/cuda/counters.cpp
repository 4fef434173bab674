#include "hooks/cuda/counters.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "hooks/cuda/counters_session.hpp"
#include "hooks/cuda/cuda.hpp"
#include "hooks/cuda/sampling_claim.hpp"
#include "spool/spool.hpp"

#include <algorithm>
#include <atomic>
#include <ctime>

namespace aiflame::cuda::counters {

namespace {

constexpr uint32_t kMostDevices = 64;
// A kernel of some milliseconds has values of its own; at 100 µs the reader takes half a processor.
constexpr uint64_t kInterval = 1'000'000, kCoarsest = 16'000'000;
constexpr uint64_t kReadEvery = 100'000'000, kLookEvery = 150'000'000;
constexpr uint64_t kPatience = 1'000'000'000;
constexpr uint32_t kMostReads = 32;

struct Place {
  std::atomic<bool> wanted;
  std::atomic<bool> begun;
  bool refused;  // until it is not wanted any more
  uint64_t interval_ns;
  uint64_t due_ns;
  sampling::Claim claim;
  Session session;
};
AIFLAME_LARGE constinit Place places[kMostDevices];
// Held during calls to CUPTI. A thread that does not get it within `kPatience` makes none.
constinit std::atomic<bool> taken{false};

bool take() noexcept {
  timespec moment{0, 200'000};
  for (uint64_t begin = now_ns(); taken.exchange(true, std::memory_order_acquire);) {
    if (now_ns() - begin > kPatience) return false;
    sys::call(SYS_nanosleep, reinterpret_cast<long>(&moment), 0);
  }
  return true;
}

void let_go() noexcept { taken.store(false, std::memory_order_release); }

uint32_t device_of(const Place& place) noexcept { return static_cast<uint32_t>(&place - places); }

void end(Place& place) noexcept {
  if (may_call_cupti())
    place.session.stop();
  else
    place.session.abandon();
  place.claim.release();
  place.begun.store(false, std::memory_order_release);
}

void begin(Place& place) noexcept {
  if (!place.claim.take(device_of(place))) {
    place.refused = true;
    return spool::note("GPU counters are recorded of one process a device: another one on the same GPU is being recorded");
  }
  place.begun.store(true, std::memory_order_release);
  if (!place.interval_ns) place.interval_ns = kInterval;
  if (!place.session.start(device_of(place), place.interval_ns)) {
    place.refused = true;
    place.claim.release();
    place.begun.store(false, std::memory_order_release);
  }
  leave_before_cuptis_own(CuptisOwn::COUNTING);
  place.due_ns = now_ns() + kReadEvery;
}

// After an overflow nothing comes until counting begins anew: with longer intervals, since reading did not keep up.
void begin_coarser(Place& place) noexcept {
  end(place);
  if (place.interval_ns >= kCoarsest) {
    place.refused = true;
    return spool::note("GPU counters are not recorded from here on: the GPU counts faster than they can be read");
  }
  place.interval_ns *= 4;
  begin(place);
}

void read(Place& place) noexcept {
  Session::Read last = Session::Read::PART;
  for (uint32_t reads = 0; last == Session::Read::PART && reads < kMostReads; reads++) last = place.session.read();
  place.due_ns = now_ns() + kReadEvery;
  if (last == Session::Read::OVERFLOWED) return begin_coarser(place);
  if (last != Session::Read::FAILED) return;
  place.refused = true;
  end(place);
}

// Returns when it is next due.
uint64_t look_after(Place& place) noexcept {
  bool wanted = place.wanted.load(std::memory_order_acquire), begun = place.begun.load(std::memory_order_relaxed);
  if (!wanted) {
    place.refused = false;
    if (begun) end(place);
  } else if (!begun && !place.refused) {
    begin(place);
  } else if (begun && now_ns() >= place.due_ns) {
    read(place);
  }
  return place.begun.load(std::memory_order_relaxed) ? place.due_ns : ~uint64_t{0};
}

}  // namespace

void want(uint32_t device, bool wanted) noexcept {
  if (device < kMostDevices) places[device].wanted.store(wanted, std::memory_order_release);
}

bool busy(uint32_t device) noexcept { return device < kMostDevices && places[device].begun.load(std::memory_order_acquire); }

uint64_t read() noexcept {
  uint64_t next = now_ns() + kLookEvery;
  if (!may_call_cupti() || taken.exchange(true, std::memory_order_acquire)) return kLookEvery;
  for (Place& place : places)
    if (may_call_cupti() && (place.wanted.load(std::memory_order_relaxed) || place.begun.load(std::memory_order_relaxed)))
      next = std::min(next, look_after(place));
  let_go();
  uint64_t now = now_ns();
  return next > now ? next - now : 0;
}

void stop() noexcept {
  bool ours = take();
  for (Place& place : places) {
    if (!place.wanted.load(std::memory_order_acquire) && !place.begun.load(std::memory_order_acquire)) continue;
    place.wanted.store(false, std::memory_order_release);
    if (ours && place.begun.load(std::memory_order_acquire)) end(place);
  }
  if (ours) let_go();
}

void after_fork_child() noexcept {
  taken.store(false, std::memory_order_relaxed);
  for (Place& place : places) {
    if (!place.wanted.load(std::memory_order_relaxed) && !place.begun.load(std::memory_order_relaxed)) continue;
    if (place.begun.load(std::memory_order_relaxed)) place.session.release();
    place.claim.release();
    place.begun.store(false, std::memory_order_relaxed);
    place.wanted.store(false, std::memory_order_relaxed);
  }
}

}  // namespace aiflame::cuda::counters
