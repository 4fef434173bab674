#include "records/live_bytes.hpp"

#include <atomic>

namespace aiflame::live_bytes {

namespace {

constexpr int kDevices = 16;
std::atomic<int64_t> host{0};
std::atomic<uint64_t> devices[kDevices]{};

}  // namespace

void add(int64_t bytes) noexcept { host.fetch_add(bytes, std::memory_order_relaxed); }

void set(int device, uint64_t bytes) noexcept {
  if (device >= 0 && device < kDevices) devices[device].store(bytes, std::memory_order_relaxed);
}

uint64_t now() noexcept {
  int64_t of_host = host.load(std::memory_order_relaxed);
  uint64_t sum = of_host > 0 ? static_cast<uint64_t>(of_host) : 0;
  for (const std::atomic<uint64_t>& device : devices) sum += device.load(std::memory_order_relaxed);
  return sum;
}

void forget() noexcept {
  host.store(0, std::memory_order_relaxed);
  for (std::atomic<uint64_t>& device : devices) device.store(0, std::memory_order_relaxed);
}

}  // namespace aiflame::live_bytes
