#include "records/kernel_shapes.hpp"

#include "base/large.hpp"
#include "spool/spool.hpp"

#include <atomic>
#include <cstring>

namespace aiflame::kernel_shapes {

namespace {

constexpr uint32_t kPlaces = 1 << 14, kMostSteps = 16;

struct Place {
  std::atomic<uint64_t> hash;  // 0: free
  std::atomic<uint32_t> row;   // 0: being written
};
AIFLAME_LARGE Place places[kPlaces];
// Most processes launch no kernels: to forget nothing is not to touch all of that.
std::atomic<bool> any{false};

uint64_t hash_of(const schema::KernelShape& shape) noexcept {
  spool::Hash hash;
  for (size_t at = 8; at < sizeof shape; at += 8) {
    uint64_t word;
    memcpy(&word, reinterpret_cast<const char*>(&shape) + at, 8);
    hash.add(word);
  }
  hash.add(shape.name);
  return hash.state | 1;
}

bool same(const schema::KernelShape& shape, uint32_t row) noexcept {
  const auto* written = spool::at<schema::KernelShape>(row);
  return written && memcmp(reinterpret_cast<const char*>(written) + 4, reinterpret_cast<const char*>(&shape) + 4, sizeof shape - 4) == 0;
}

}  // namespace

uint32_t row(const schema::KernelShape& shape) noexcept {
  control::Use use;
  uint64_t hash = hash_of(shape);
  if (!any.load(std::memory_order_relaxed)) any.store(true, std::memory_order_relaxed);
  for (uint32_t step = 0; step < kMostSteps; step++) {
    Place& place = places[(hash + step) % kPlaces];
    uint64_t there = place.hash.load(std::memory_order_acquire);
    if (there == hash) {
      uint32_t row = place.row.load(std::memory_order_acquire);
      if (same(shape, row)) return row;
    }
    if (there != 0 || !place.hash.compare_exchange_strong(there, hash)) continue;
    uint32_t row = spool::append(shape);
    place.row.store(row, std::memory_order_release);
    return row;
  }
  return spool::append(shape);
}

void forget_rows() noexcept {
  if (!any.load(std::memory_order_relaxed)) return;
  any.store(false, std::memory_order_relaxed);
  for (Place& place : places) {
    place.row.store(0, std::memory_order_relaxed);
    place.hash.store(0, std::memory_order_release);
  }
}

}  // namespace aiflame::kernel_shapes
