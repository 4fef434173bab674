// Addresses that belong to us even while nothing is mapped there.
//
// A program may unmap our tables (some unmap everything that they do not know). The kernel then gives their addresses to the next mapping, perhaps to
// another table of ours, and two tables would be written to one place. So no new mapping of ours is put where a table still expects its own.
#pragma once
#include "base/sys.hpp"
#include "base/thread_sanitizer.hpp"

#include <cstdint>

namespace aiflame::places {

// A range of addresses.
struct Range {
  uint64_t address, bytes;

  bool holds(uint64_t other) const noexcept { return other - address < bytes; }
  bool overlaps(uint64_t other, uint64_t other_bytes) const noexcept { return other < address + bytes && address < other + other_bytes; }
};
inline Range range(const void* memory, uint64_t bytes) noexcept { return {reinterpret_cast<uint64_t>(memory), bytes}; }

// True if each of its addresses is mapped.
bool is_mapped(const Range& range) noexcept;

struct Owner {
  bool (*overlaps)(uint64_t address, uint64_t bytes) noexcept;
  void (*map_missing)() noexcept;  // maps all places again that the program has unmapped
};
// Called once, before any mapping that counts.
void set_owner(const Owner& owner) noexcept;
const Owner& owner() noexcept;

enum class Mend { YES, NO };  // NO: this mapping itself restores a missing one

// Calls `map`, which maps memory anywhere, until the result overlaps none of our places. Returns an error number below zero if that fails.
template <class Map>
long map_clear(uint64_t bytes, Mend mend, Map map) noexcept {
  auto unmap = [bytes](long address) noexcept { sys::unmap_memory(reinterpret_cast<void*>(address), bytes); };
  auto taken = [bytes](long address) noexcept { return !sys::failed(address) && owner().overlaps(static_cast<uint64_t>(address), bytes); };
  long address = map();
  thread_sanitizer::after_map();
  if (!taken(address)) [[likely]]
    return address;
  unmap(address);
  if (mend == Mend::YES) owner().map_missing();
  // The most places that are tried. A place that is partly free stays a hole: it is filled while we look for another place.
  constexpr int kMost = 32;
  long filled[kMost];
  int count = 0;
  while (taken(address = map()) && count < kMost) filled[count++] = address;
  while (count > 0) unmap(filled[--count]);
  if (!taken(address)) return address;
  unmap(address);
  constexpr long kNoMemory = -12;  // ENOMEM
  return kNoMemory;
}

}  // namespace aiflame::places
