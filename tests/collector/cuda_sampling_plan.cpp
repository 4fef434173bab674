// The plan of GPU sampling against a device that we make up.
//
// cuda_sampling_plan MULTIPROCESSORS CLOCK_KHZ SETTING WARPS SECONDS PHASE...: warps that a multiprocessor gives each period; how long it
// runs; and what the device does, again and again: milliseconds:thousandths busy. Prints the period and the buffer's bytes, then a line
// for each fetch: the time in ms, the samples, how full the buffer was in thousandths (1000: it overflowed), and the interval to the next
// in ms.
#include "hooks/cuda_sampling_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace aiflame::cuda::sampling;

namespace {

struct Phase {
  double ms, busy;
};

// How busy the device was, in ms of all of it.
double busy_ms(const std::vector<Phase>& phases, double from_ms, double to_ms) {
  constexpr double kStep = 1;
  double round_ms = 0, sum = 0;
  for (const Phase& phase : phases) round_ms += phase.ms;
  for (double at = from_ms; at < to_ms; at += kStep) {
    double in_round = std::fmod(at, round_ms);
    for (const Phase& phase : phases) {
      if (in_round < phase.ms) {
        sum += kStep * phase.busy / 1000;
        break;
      }
      in_round -= phase.ms;
    }
  }
  return sum;
}

}  // namespace

int main(int count, char** arguments) {
  auto number = [&](int at) { return strtoul(arguments[at], nullptr, 10); };
  if (count < 7) return 2;
  Device device{.multiprocessors = static_cast<uint32_t>(number(1)), .clock_khz = static_cast<uint32_t>(number(2))};
  Plan plan(device, static_cast<uint32_t>(number(3)));
  double warps = static_cast<double>(number(4)), end_ms = static_cast<double>(number(5)) * 1000;
  std::vector<Phase> phases;
  for (int at = 6; at < count; at++) {
    Phase phase{};
    if (sscanf(arguments[at], "%lf:%lf", &phase.ms, &phase.busy) < 2) return 2;
    phases.push_back(phase);
  }

  constexpr double kRecordBytes = 32, kOurInstructions = 16384;
  printf("%u %llu\n", plan.period(), static_cast<unsigned long long>(plan.device_bytes()));
  double a_ms = static_cast<double>(device.multiprocessors) * device.clock_khz * warps / static_cast<double>(1ull << plan.period());
  double now = 0, fetched_to = 0;
  while (now < end_ms) {
    now += static_cast<double>(plan.interval_ns()) / 1e6;
    double samples = std::floor(a_ms * busy_ms(phases, fetched_to, now));
    // Nobody empties the buffer but our fetch.
    double fill = std::min(samples * kRecordBytes / static_cast<double>(plan.device_bytes()), 1.0);
    plan.observe({.samples = static_cast<uint64_t>(samples), .dropped = 0, .overflowed = samples > kOurInstructions, .full = fill >= 1});
    printf("%.0f %.0f %.0f %.0f\n", now, samples, fill * 1000, static_cast<double>(plan.interval_ns()) / 1e6);
    fetched_to = now;
  }
}
