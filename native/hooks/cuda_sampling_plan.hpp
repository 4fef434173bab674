// How often a GPU's warps are looked at, and how often what was seen is fetched: arithmetic without a call to CUPTI.
//
// The period is 2^n cycles and stays as it is: to change it means to end sampling and to begin anew, and a program that launches
// kernels meanwhile hangs in the driver. So it is chosen before the first sample, for a device that is busy everywhere; what is fetched
// decides only when to fetch again.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

namespace aiflame::cuda::sampling {

constexpr uint32_t kFinestPeriod = 5, kCoarsestPeriod = 31;  // what CUPTI takes

// Samples a second and device; each multiprocessor gives one a period. A minute of them resolves a thousandth of the GPU's time to 3%.
constexpr uint64_t kBudget = 50'000;

// Windows are as long as the time between two fetches: short ones divide samples well, and CUPTI decodes every 25 ms at best.
constexpr uint64_t kBusyInterval = 150'000'000, kShortestInterval = 50'000'000, kIdleInterval = 500'000'000;

struct Device {
  uint32_t multiprocessors, clock_khz;
};

// What one fetch brought.
struct Fetched {
  uint64_t samples;  // all of them, dropped ones too
  uint64_t dropped;
  bool overflowed;  // more instructions than fit into our memory
  bool full;        // the device's buffer had no room
};

class Plan {
 public:
  constexpr Plan() noexcept = default;

  // `setting`: a fixed period, or less than kFinestPeriod to choose.
  constexpr Plan(Device device, uint32_t setting) noexcept {
    // Of an unknown device: as if it were larger than any there is.
    if (!device.multiprocessors || !device.clock_khz) device = {.multiprocessors = 256, .clock_khz = 2'500'000};
    cycles_ = uint64_t{device.multiprocessors} * device.clock_khz * 1000;
    if (setting >= kFinestPeriod)
      period_ = std::min(setting, kCoarsestPeriod);
    else
      for (period_ = kFinestPeriod; period_ < kCoarsestPeriod && cycles_ > kBudget << period_;) period_++;
  }

  constexpr uint32_t period() const noexcept { return period_; }
  constexpr uint64_t interval_ns() const noexcept { return interval_ns_; }

  // Of the buffer that the device writes into, which is memory that the program cannot have. CUPTI's own choice is 512 MB.
  constexpr uint64_t device_bytes() const noexcept {
    // Nobody tells how large a record is: enough for 128 bytes a sample, for twice the longest time between two fetches.
    constexpr uint64_t kRecordBytes = 128, kSmallest = 16 << 20, kLargest = 512 << 20;
    uint64_t samples = (cycles_ >> period_) * (2 * kIdleInterval / 1'000'000) / 1000;
    return std::bit_ceil(std::clamp(samples * kRecordBytes, kSmallest, kLargest));
  }

  constexpr void observe(const Fetched& fetched) noexcept {
    if (fetched.overflowed || fetched.full)
      interval_ns_ = std::max(std::min(interval_ns_, kBusyInterval) / 2, kShortestInterval);
    else if (fetched.samples == 0)
      interval_ns_ = std::min(interval_ns_ * 2, kIdleInterval);
    else
      interval_ns_ = interval_ns_ > kBusyInterval ? kBusyInterval : std::min(interval_ns_ * 2, kBusyInterval);
  }

 private:
  uint64_t cycles_ = 0;  // a second, of all multiprocessors together
  uint32_t period_ = kCoarsestPeriod;
  uint64_t interval_ns_ = kBusyInterval;
};

}  // namespace aiflame::cuda::sampling
