#include "memory/mapped.hpp"

namespace aiflame::memory::mapped {

constinit std::atomic<uint32_t> used{0};

namespace {

constexpr uint32_t kMost = 1 << 14;
constexpr uint64_t kPage = 4096, kAddresses = uint64_t{1} << 47;
constexpr uint64_t kBusy = 1;  // a thread writes to the place, or reads it before it frees it
struct Mapping {
  std::atomic<uint64_t> begin;  // 0: free
  std::atomic<uint64_t> end;
  std::atomic<host_memory::Row> row;
};
constinit Mapping mappings[kMost]{};

// The kernel maps and unmaps whole pages.
uint64_t end_of(uint64_t address, uint64_t bytes) noexcept { return (address + bytes + kPage - 1) & ~(kPage - 1); }

}  // namespace

void keep(host_memory::Row row, uint64_t begin, uint64_t end, uint64_t time_ns) noexcept {
  if (begin >= end) return;
  if (host_memory::Row part = collector::interface()->remains(row, begin, end - begin, time_ns)) add(begin, end - begin, part);
}

void add(uint64_t address, uint64_t bytes, host_memory::Row row) noexcept {
  for (uint32_t at = 0; at < kMost; at++) {
    Mapping& mapping = mappings[at];
    uint64_t none = 0;
    if (mapping.begin.load(std::memory_order_relaxed) || !mapping.begin.compare_exchange_strong(none, kBusy)) continue;
    mapping.end.store(end_of(address, bytes), std::memory_order_relaxed);
    mapping.row.store(row, std::memory_order_relaxed);
    mapping.begin.store(address, std::memory_order_release);
    uint32_t before = used.load(std::memory_order_relaxed);
    while (before <= at && !used.compare_exchange_weak(before, at + 1)) {
    }
    return;
  }
  collector::interface()->note("host memory: too many sampled mappings at once; some count as never unmapped");
}

host_memory::Row cut(uint64_t address, uint64_t bytes, uint64_t time_ns) noexcept {
  if (!bytes || bytes > kAddresses || address % kPage) return 0;  // the kernel refuses that
  host_memory::Row first = 0;
  uint64_t cut_end = end_of(address, bytes);
  for (uint32_t at = 0, count = used.load(std::memory_order_acquire); at < count; at++) {
    Mapping& mapping = mappings[at];
    uint64_t begin = mapping.begin.load(std::memory_order_acquire);
    if (begin <= kBusy || begin >= cut_end) continue;
    uint64_t end = mapping.end.load(std::memory_order_relaxed);
    if (end <= address || !mapping.begin.compare_exchange_strong(begin, kBusy)) continue;
    host_memory::Row row = mapping.row.load(std::memory_order_relaxed);
    mapping.begin.store(0, std::memory_order_release);
    keep(row, begin, address, time_ns);
    keep(row, cut_end, end, time_ns);
    collector::interface()->released(row, time_ns);
    if (begin <= address) first = row;
  }
  return first;
}

}  // namespace aiflame::memory::mapped
