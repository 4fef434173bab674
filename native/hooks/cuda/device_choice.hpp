// Decides whether sampling a device's stalls is worth its cost: arithmetic without a call to CUPTI.
//
// While a device's stalls are sampled, each launch takes CUPTI about a microsecond longer (0.9 µs of 9 on an H100). If the device is busy, launches
// run ahead of it and the program loses nothing. If it waits for launches, the program slows down by that time, and the stalls of its instructions
// matter least.
#pragma once
#include <cstdint>

namespace aiflame::cuda {

// The work of a device in a stretch of time.
struct Load {
  uint64_t ns;       // length of the stretch
  uint64_t busy_ns;  // time in which kernels ran
  uint64_t launches;
};

class DeviceChoice {
 public:
  // Call it after every stretch. `samples`: the device's stalls are being sampled.
  constexpr bool should_sample(bool samples, const Load& load, uint64_t now_ns) noexcept {
    if (load.ns == 0) return samples;
    bool against = samples ? waits_for_launches(load) : is_busy(load);
    against_ = against ? against_ + 1 : 0;
    // A context that the recording found is not sampled until the device's load is known: then there has been no change yet.
    bool first = !samples && !changed_ns_;
    if (against_ < (samples || first ? kStretchesToEnd : kStretchesToBegin)) return samples;
    // Beginning and ending halt the program's launches for 0.05 to 0.2 s: at most a 150th of its time may be lost to that.
    if (!samples && !first && now_ns - changed_ns_ < kRest) return samples;
    return !samples;
  }

  // True if the last stretch spoke against the present choice.
  constexpr bool wavers() const noexcept { return against_ > 0; }

  constexpr void changed(uint64_t now_ns) noexcept {
    changed_ns_ = now_ns;
    against_ = 0;
  }

 private:
  static constexpr uint32_t kStretchesToEnd = 2, kStretchesToBegin = 4;
  static constexpr uint64_t kRest = 30'000'000'000;

  // 5,000 launches a second lose half a percent, at a microsecond each.
  static constexpr bool waits_for_launches(const Load& load) noexcept { return load.busy_ns * 10 < load.ns * 7 && launches_a_second(load) > 5'000; }
  static constexpr bool is_busy(const Load& load) noexcept {
    return load.busy_ns * 20 > load.ns * 17 || (load.launches && launches_a_second(load) < 2'500);
  }
  static constexpr uint64_t launches_a_second(const Load& load) noexcept { return load.launches * 1'000'000'000 / load.ns; }

  uint32_t against_ = 0;  // consecutive stretches that speak against the present choice
  uint64_t changed_ns_ = 0;
};

}  // namespace aiflame::cuda
