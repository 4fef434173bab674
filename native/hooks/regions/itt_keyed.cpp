// Which row an ITT id stands for, while its region is open.
#include "base/large.hpp"
#include "hooks/regions/itt_internal.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <atomic>

namespace aiflame::itt {

namespace {

struct Place {
  std::atomic<uint64_t> key;  // 0: free
  std::atomic<uint64_t> row;  // recording << 32 | row; 0: being written, or taken out
};
constexpr uint32_t kPlaces = 1 << 14, kSteps = 32;
AIFLAME_LARGE constinit Place places[kPlaces];

// The row, if it belongs to this recording.
uint32_t current(uint64_t row) noexcept { return row >> 32 == regions::recording_number() ? static_cast<uint32_t>(row) : 0; }

template <class Use>
uint32_t find(uint64_t key, Use use) noexcept {
  for (uint32_t step = 0; step < kSteps; step++) {
    Place& place = places[(key + step) % kPlaces];
    if (place.key.load(std::memory_order_acquire) == key) return use(place);
  }
  return 0;
}

void keep(uint64_t key, uint64_t row) noexcept {
  for (uint32_t step = 0; step < kSteps; step++) {
    Place& place = places[(key + step) % kPlaces];
    uint64_t there = place.key.load(std::memory_order_relaxed);
    // Regions that an earlier recording left open are never ended.
    uint64_t held = place.row.load(std::memory_order_relaxed);
    bool stale = there && held && !current(held);
    if (there && !stale) continue;
    if (!place.key.compare_exchange_strong(there, key, std::memory_order_acq_rel)) continue;
    place.row.store(row, std::memory_order_release);
    return;
  }
  spool::note("ITT: very many regions with ids are open at once: some have no end in the profile");
}

}  // namespace

void begin_keyed(const regions::Spec& spec, uint64_t key) noexcept {
  control::Use use;
  if (uint32_t row = regions::begin(spec)) keep(key, static_cast<uint64_t>(regions::recording_number()) << 32 | row);
}

void end_keyed(uint64_t key) noexcept {
  control::Use use;
  regions::end(find(key, [](Place& place) {
    uint32_t row = current(place.row.exchange(0));
    place.key.store(0, std::memory_order_release);
    return row;
  }));
}

uint32_t row_keyed(uint64_t key) noexcept {
  return find(key, [](Place& place) { return current(place.row.load(std::memory_order_acquire)); });
}

uint64_t key_of(uint64_t what, uint64_t a, uint64_t b, uint64_t c) noexcept {
  spool::Hash hash;
  for (uint64_t part : {what, a, b, c}) hash.add(part);
  return hash.state | 1;
}

uint64_t key_of(const Domain* domain, const Id& id) noexcept {
  bool null = !id.d1 && !id.d2 && !id.d3;
  return null ? 0 : key_of(reinterpret_cast<uint64_t>(domain), id.d1, id.d2, id.d3);
}

}  // namespace aiflame::itt
