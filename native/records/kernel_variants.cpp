// A table from functions to rows, written under Python's lock or not, read by every launch: nobody waits for anybody.
#include "records/kernel_variants.hpp"

#include "base/sys.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <sys/mman.h>

namespace aiflame::kernel_variants {

constinit std::atomic<bool> known{false};

namespace {

struct Place {
  std::atomic<uint64_t> function;  // 0: free; an address that is used again gets another row
  std::atomic<uint32_t> row;
};
constexpr uint32_t kPlaces = 1 << 16, kMostSteps = 64;
constinit std::atomic<Place*> table{nullptr};

Place* places() noexcept {
  Place* there = table.load(std::memory_order_acquire);
  if (there) return there;
  auto* made = static_cast<Place*>(sys::map_memory(kPlaces * sizeof(Place)));
  if (!made || table.compare_exchange_strong(there, made, std::memory_order_acq_rel)) return made;
  sys::unmap_memory(made, kPlaces * sizeof(Place));
  return there;
}

// Functions are objects of the driver's heap: their low bits are equal.
uint32_t first_place(uint64_t function) noexcept { return static_cast<uint32_t>((function * 0x9e3779b97f4a7c15) >> 48); }

bool remember(uint64_t function, uint32_t row) noexcept {
  Place* all = places();
  if (!all) return false;
  for (uint32_t step = 0; step < kMostSteps; step++) {
    Place& place = all[(first_place(function) + step) % kPlaces];
    uint64_t there = 0;
    if (!place.function.compare_exchange_strong(there, function) && there != function) continue;
    place.row.store(row, std::memory_order_release);
    known.store(true, std::memory_order_release);
    return true;
  }
  return false;
}

}  // namespace

uint32_t add(uint64_t function, std::string_view name, std::string_view readable, std::string_view details) noexcept {
  control::Use use;
  uint32_t row = spool::append(schema::KernelVariant{.name = spool::text(name), .readable = spool::text(readable), .details = spool::text(details)});
  if (function && row && !remember(function, row)) spool::note("Triton: too many kernels are loaded: the last ones have no readable names");
  return row;
}

uint32_t of(uint64_t function) noexcept {
  Place* all = any() && function ? table.load(std::memory_order_acquire) : nullptr;
  if (!all) return 0;
  for (uint32_t step = 0; step < kMostSteps; step++) {
    const Place& place = all[(first_place(function) + step) % kPlaces];
    uint64_t there = place.function.load(std::memory_order_relaxed);
    if (there == function) return place.row.load(std::memory_order_relaxed);
    if (!there) break;
  }
  return 0;
}

void forget_rows() noexcept {
  if (!known.exchange(false, std::memory_order_relaxed)) return;
  // Zeros again, for threads that may be reading; untouched pages stay untouched.
  sys::call(SYS_madvise, reinterpret_cast<long>(table.load(std::memory_order_relaxed)), kPlaces * sizeof(Place), MADV_DONTNEED);
}

}  // namespace aiflame::kernel_variants
