// How often a GPU's warps are looked at, and how often what was seen is fetched: chosen from what the fetches bring, without a call to
// CUPTI.
//
// The period is 2^n cycles, and a change of it means to stop sampling and start it anew: rare, and never to and fro. What bounds the
// choice is known before the first sample: a device that is busy everywhere gives clock * multiprocessors / 2^n samples a second, so a
// period that is bearable then is bearable always. Load decides only how much finer than that it may be.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

namespace aiflame::cuda::sampling {

constexpr uint32_t kFinestPeriod = 5, kCoarsestPeriod = 31;  // what CUPTI takes

// Samples a second and device. A minute of them resolves a thousandth of the GPU's time to 3%; written one by one they would be 0.6 MB a
// second, and most share their instruction and reason with others of their window.
constexpr uint64_t kBudget = 25'000;
// Before the load is known: a program of a few seconds gets more a second, and a long one no more than this beyond its budget.
constexpr uint64_t kStartRate = 4 * kBudget, kHeadStart = 250'000;
// No period is chosen that could give more than this, should the device be busy from now on.
constexpr uint64_t kMostRate = 8 * kBudget;

// Windows are as long as the time between two fetches: short ones divide samples well, and CUPTI decodes every 25 ms at best.
constexpr uint64_t kBusyInterval = 150'000'000, kShortestInterval = 50'000'000, kIdleInterval = 500'000'000;

struct Device {
  uint32_t multiprocessors, clock_khz;
};

// What one fetch brought.
struct Fetched {
  uint64_t ns;       // since the one before
  uint64_t samples;  // all of them, dropped ones too
  uint64_t dropped;
  bool overflowed;  // more instructions than fit into our memory
  bool full;        // the device's buffer had no room: sampling has stopped
};

class Plan {
 public:
  constexpr Plan() noexcept = default;

  // `setting`: a fixed period, or less than kFinestPeriod to choose.
  constexpr Plan(Device device, uint32_t setting) noexcept {
    // Of an unknown device: as if it were a large one.
    if (!device.multiprocessors || !device.clock_khz) device = {.multiprocessors = 160, .clock_khz = 2'000'000};
    cycles_ = static_cast<uint64_t>(device.multiprocessors) * device.clock_khz * 1000;
    fixed_ = setting >= kFinestPeriod;
    period_ = fixed_ ? std::min(setting, kCoarsestPeriod) : finest_for(kStartRate);
  }

  constexpr uint32_t period() const noexcept { return period_; }
  constexpr uint64_t interval_ns() const noexcept { return interval_ns_; }

  // Of the buffer that the device writes into, which is memory that the program cannot have. CUPTI's own choice is 512 MB.
  constexpr uint64_t device_bytes() const noexcept {
    // Nobody tells how large a record is, or whether each of the four schedulers gives one: enough for 32 bytes from each, for twice the
    // longest time between two fetches.
    constexpr uint64_t kRecordBytes = 32, kSchedulers = 4, kSmallest = 16 << 20, kLargest = 512 << 20;
    uint64_t rate = fixed_ ? cycles_ >> period_ : std::min(cycles_ >> finest_for(kMostRate), kMostRate);
    uint64_t second = rate * kRecordBytes * kSchedulers;
    return std::bit_ceil(std::clamp(second * (2 * kIdleInterval / 1'000'000) / 1000, kSmallest, kLargest));
  }

  // True: sampling has to be started anew, with what period() says now.
  constexpr bool observe(const Fetched& fetched) noexcept {
    pace(fetched);
    total_ += fetched.samples;
    since_start_ns_ += fetched.ns;
    if (fixed_) return fetched.full && restarted();
    if (fetched.full) return coarsen(kFullSteps) || restarted();
    ns_ += fetched.ns;
    samples_ += fetched.samples;
    dropped_ += fetched.dropped;
    if (ns_ < kJudgedNs) return false;
    uint64_t rate = per_second(samples_), lost = per_second(dropped_);
    ns_ = samples_ = dropped_ = 0;
    // A device that looks at more warps than we think shows it here.
    cycles_ = std::max(cycles_, rate << period_);
    if (lost > rate / 8) return coarsen(std::max(steps_down(rate), 1u));
    if (rate > kMostRate || (rate > 2 * kBudget && total_ >= kHeadStart)) return coarsen(steps_down(rate));
    return refine(rate);
  }

 private:
  static constexpr uint64_t kJudgedNs = 1'000'000'000;
  static constexpr uint64_t kRestartNs = 2'000'000'000;
  static constexpr uint32_t kFullSteps = 3;
  static constexpr uint32_t kWorthwhile = 2;                            // steps finer
  static constexpr uint64_t kFirstPatience = 30, kMostPatience = 3600;  // judgements

  constexpr uint32_t finest_for(uint64_t rate) const noexcept {
    uint32_t period = kFinestPeriod;
    while (period < kCoarsestPeriod && cycles_ >> period > rate) period++;
    return period;
  }

  constexpr void pace(const Fetched& fetched) noexcept {
    if (fetched.overflowed || fetched.full)
      interval_ns_ = std::max(std::min(interval_ns_, kBusyInterval) / 2, kShortestInterval);
    else if (fetched.samples == 0)
      interval_ns_ = std::min(interval_ns_ * 2, kIdleInterval);
    else
      interval_ns_ = interval_ns_ > kBusyInterval ? kBusyInterval : std::min(interval_ns_ * 2, kBusyInterval);
  }

  constexpr uint64_t per_second(uint64_t count) const noexcept { return count * 1000 / std::max<uint64_t>(ns_ / 1'000'000, 1); }

  // How many halvings bring it next to the budget: 1.5 times too many is left as it is.
  static constexpr uint32_t steps_down(uint64_t rate) noexcept {
    uint32_t steps = 0;
    for (; rate * 2 > kBudget * 3; rate /= 2) steps++;
    return steps;
  }

  constexpr bool coarsen(uint32_t steps) noexcept {
    // It was finer before, because of us: the next time takes more to convince us.
    if (refined_) patience_ = std::min(patience_ * 4, kMostPatience);
    refined_ = false;
    return change_to(std::min(period_ + steps, kCoarsestPeriod));
  }

  // Only after a long time in which even the busiest second would have borne it; a device at rest says nothing.
  constexpr bool refine(uint64_t rate) noexcept {
    if (rate == 0) return false;
    busiest_ = std::max(busiest_, rate);
    if (++calm_ < patience_) return false;
    uint32_t finest = finest_for(kMostRate), to = period_;
    for (uint64_t there = busiest_; there * 4 < kBudget && to > finest; there *= 2) to--;
    if (period_ - to < kWorthwhile) to = period_;
    refined_ = refined_ || to != period_;
    return change_to(to);
  }

  constexpr bool change_to(uint32_t period) noexcept {
    ns_ = samples_ = dropped_ = busiest_ = calm_ = 0;
    if (period == period_) return false;
    period_ = period;
    since_start_ns_ = 0;
    return true;
  }

  // Sampling that has come to a stop is started again, but not at every fetch: a period that is too fine fills its buffer at once.
  constexpr bool restarted() noexcept {
    if (since_start_ns_ < kRestartNs) return false;
    since_start_ns_ = 0;
    return true;
  }

  uint64_t cycles_ = 0;  // a second, of all multiprocessors together
  uint32_t period_ = kCoarsestPeriod;
  bool fixed_ = false, refined_ = false;
  uint64_t interval_ns_ = kBusyInterval;
  uint64_t total_ = 0, since_start_ns_ = kRestartNs;
  uint64_t ns_ = 0, samples_ = 0, dropped_ = 0;  // not judged yet
  uint64_t busiest_ = 0, calm_ = 0, patience_ = kFirstPatience;
};

}  // namespace aiflame::cuda::sampling
