#include "memory/sampled.hpp"

#include <bit>

namespace aiflame::memory::sampled {

constinit std::atomic<uint8_t> blocks_at[kPlaces]{};

namespace {

constexpr uint8_t kMany = 255;  // stays

// A million blocks: half a terabyte with the usual distance between samples. Untouched parts take no memory.
constexpr uint32_t kBuckets = 1 << 17, kInBucket = 8, kReach = 4;
struct alignas(64) Bucket {
  std::atomic<uint64_t> address[kInBucket];  // 0: free
  std::atomic<host_memory::Row> row[kInBucket];
};
constinit Bucket buckets[kBuckets]{};

Bucket& bucket(uint64_t address, uint32_t step) noexcept { return buckets[(((address >> 4) * 0x9E3779B97F4A7C15u >> 47) + step) % kBuckets]; }
static_assert(std::countr_zero(kBuckets) == 64 - 47);

void count(uint64_t address, int one) noexcept {
  std::atomic<uint8_t>& place = blocks_at[place_of(address)];
  uint8_t there = place.load(std::memory_order_relaxed);
  while (there != kMany && !place.compare_exchange_weak(there, static_cast<uint8_t>(there + one), std::memory_order_relaxed)) {
  }
}

}  // namespace

host_memory::Row add(const void* block, host_memory::Row row, bool* kept) noexcept {
  auto address = reinterpret_cast<uint64_t>(block);
  host_memory::Row earlier = may_have(block) ? remove(block) : 0;
  for (uint32_t step = 0; step < kReach; step++) {
    Bucket& there = bucket(address, step);
    for (uint32_t at = 0; at < kInBucket; at++) {
      uint64_t none = 0;
      if (there.address[at].load(std::memory_order_relaxed) || !there.address[at].compare_exchange_strong(none, address)) continue;
      // Nobody else knows the block yet.
      there.row[at].store(row, std::memory_order_release);
      count(address, 1);
      *kept = true;
      return earlier;
    }
  }
  *kept = false;
  return earlier;
}

host_memory::Row remove(const void* block) noexcept {
  auto address = reinterpret_cast<uint64_t>(block);
  if (!address) return 0;
  for (uint32_t step = 0; step < kReach; step++) {
    Bucket& there = bucket(address, step);
    for (uint32_t at = 0; at < kInBucket; at++) {
      if (there.address[at].load(std::memory_order_acquire) != address) continue;
      host_memory::Row row = there.row[at].load(std::memory_order_acquire);
      uint64_t expected = address;
      // A program that frees a block twice at once.
      if (!there.address[at].compare_exchange_strong(expected, 0)) return 0;
      count(address, -1);
      return row;
    }
  }
  return 0;
}

}  // namespace aiflame::memory::sampled
