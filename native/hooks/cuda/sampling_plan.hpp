// Decides how often a GPU samples its warps, when CUPTI decodes the samples, when we fetch them, and to which window of time they belong: arithmetic
// without a call to CUPTI.
//
// The period is 2^n cycles and never changes: changing it would mean ending sampling and beginning anew, and a program that launches kernels
// meanwhile would hang in the driver. So it is chosen before the first sample, for a device that is busy everywhere.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

namespace aiflame::cuda::sampling {

constexpr uint32_t kFinestPeriod = 5, kCoarsestPeriod = 31;  // CUPTI's limits

// Samples a second for each device; each multiprocessor gives one in a period. A minute of them resolves a thousandth of the GPU's time to 3%.
constexpr uint64_t kBudget = 50'000;

// CUPTI decodes in threads of its own, at an interval that is set once. Short windows divide samples well; but on some virtual machines all
// processors halt for a moment each time, which slows a program that launches all the time.
constexpr uint64_t kDecodeEvery = 200'000'000, kDecodeOftenest = 25'000'000;
// CUPTI does not report when it has decoded, but polling costs little. The end of a window is as exact as this interval.
constexpr uint64_t kLookEvery = 25'000'000, kLookWhenIdle = 500'000'000;

struct Device {
  uint32_t multiprocessors, clock_khz;
};

struct Stretch {
  uint64_t begin_ns, end_ns;
};

class Plan {
 public:
  constexpr Plan() noexcept = default;

  // `setting`: a fixed period, or less than kFinestPeriod to choose one.
  constexpr Plan(Device device, uint32_t setting) noexcept {
    // An unknown device is treated as larger than any known one.
    if (!device.multiprocessors || !device.clock_khz) device = {.multiprocessors = 256, .clock_khz = 2'500'000};
    cycles_ = uint64_t{device.multiprocessors} * device.clock_khz * 1000;
    if (setting >= kFinestPeriod)
      period_ = std::min(setting, kCoarsestPeriod);
    else
      for (period_ = kFinestPeriod; period_ < kCoarsestPeriod && cycles_ > kBudget << period_;) period_++;
  }

  constexpr uint32_t period() const noexcept { return period_; }

  // The bytes of the device's buffer, which is memory that the program cannot use. CUPTI's own choice is 512 MB.
  constexpr uint64_t device_bytes() const noexcept {
    constexpr uint64_t kSmallest = 16 << 20, kLargest = 512 << 20;
    return std::bit_ceil(std::clamp(bytes_a_second(), kSmallest, kLargest));
  }

  // As rarely as the length of windows allows, but before half of the device's buffer is full.
  constexpr uint64_t decode_ns() const noexcept {
    uint64_t full_in_us = device_bytes() * 1'000'000 / std::max<uint64_t>(bytes_a_second(), 1);
    return std::clamp(full_in_us / 2 * 1000, kDecodeOftenest, kDecodeEvery);
  }

  constexpr void begin(uint64_t now) noexcept {
    edge_ns_ = looked_ns_ = came_ns_ = now;
    wait_for_next(now);
  }

  // When to look for samples.
  constexpr uint64_t due_ns() const noexcept { return due_ns_; }

  // The window of the samples that come now. Windows overlap by the time in which the previous samples may have been decoded.
  constexpr Stretch window(uint64_t now) const noexcept { return {edge_ns_, now}; }

  constexpr void looked(bool found, uint64_t now) noexcept {
    if (found) {
      edge_ns_ = looked_ns_;  // by then they had not been decoded
      came_ns_ = now;
      wait_for_next(now);
    } else {
      // Samples that the GPU took earlier have been decoded by now.
      uint64_t latest = decode_ns() + 2 * kLookEvery;
      if (now > latest) edge_ns_ = std::max(edge_ns_, now - latest);
      wait(now, now - came_ns_ < 2 * latest ? kLookEvery : std::min(2 * interval_ns_, kLookWhenIdle));
    }
    looked_ns_ = now;
  }

 private:
  // CUPTI does not document the size of a record: 128 bytes a sample are enough.
  constexpr uint64_t bytes_a_second() const noexcept { return (cycles_ >> period_) * 128; }

  constexpr void wait_for_next(uint64_t now) noexcept { wait(now, std::max(decode_ns() - kLookEvery, kLookEvery)); }

  constexpr void wait(uint64_t now, uint64_t ns) noexcept {
    interval_ns_ = ns;
    due_ns_ = now + ns;
  }

  uint64_t cycles_ = 0;  // in a second, of all multiprocessors together
  uint32_t period_ = kCoarsestPeriod;
  uint64_t interval_ns_ = kLookEvery;
  uint64_t edge_ns_ = 0, looked_ns_ = 0, came_ns_ = 0, due_ns_ = 0;
};

}  // namespace aiflame::cuda::sampling
