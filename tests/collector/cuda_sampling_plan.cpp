// The plan of GPU sampling against a device that we make up.
//
// cuda_sampling_plan MULTIPROCESSORS CLOCK_KHZ SETTING WARPS BUFFER SECONDS PHASE...: warps looked at in each period by a multiprocessor;
// the buffer's size in hundredths of what the plan asks for; how long it runs; and what the device does, again and again:
// milliseconds:thousandths busy[:thousandths of the samples dropped]. Prints the buffer's bytes, then a line for each fetch: the time
// in ms, the period of the samples, how many they are, how full the buffer was in thousandths (1000: it overflowed), the interval to the
// next in ms, and whether sampling was started anew.
#include "hooks/cuda_sampling_plan.hpp"

#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace aiflame::cuda::sampling;

namespace {

struct Phase {
  double ms, busy, dropped;
};

// The mean over a stretch of time.
Phase mean(const std::vector<Phase>& phases, double from_ms, double to_ms) {
  constexpr double kStep = 1;
  Phase sum{};
  double round_ms = 0;
  for (const Phase& phase : phases) round_ms += phase.ms;
  for (double at = from_ms; at < to_ms; at += kStep) {
    double in_round = at - static_cast<double>(static_cast<long>(at / round_ms)) * round_ms;
    for (const Phase& phase : phases) {
      if (in_round < phase.ms) {
        sum.busy += phase.busy;
        sum.dropped += phase.dropped;
        break;
      }
      in_round -= phase.ms;
    }
    sum.ms++;
  }
  return {.ms = to_ms - from_ms, .busy = sum.busy / sum.ms, .dropped = sum.dropped / sum.ms};
}

}  // namespace

int main(int count, char** arguments) {
  auto number = [&](int at) { return strtoul(arguments[at], nullptr, 10); };
  if (count < 8) return 2;
  double multiprocessors = static_cast<double>(number(1)), hz = static_cast<double>(number(2)) * 1000;
  Plan plan({.multiprocessors = static_cast<uint32_t>(number(1)), .clock_khz = static_cast<uint32_t>(number(2))}, static_cast<uint32_t>(number(3)));
  double warps = static_cast<double>(number(4)), capacity = static_cast<double>(plan.device_bytes()) * static_cast<double>(number(5)) / 100;
  double end_ms = static_cast<double>(number(6)) * 1000;
  std::vector<Phase> phases;
  for (int at = 7; at < count; at++) {
    Phase phase{};
    if (sscanf(arguments[at], "%lf:%lf:%lf", &phase.ms, &phase.busy, &phase.dropped) < 2) return 2;
    phases.push_back(phase);
  }

  constexpr double kRecordBytes = 32;
  printf("%llu\n", static_cast<unsigned long long>(plan.device_bytes()));
  bool halted = false;  // a buffer that overflowed ends sampling until it is started anew
  double sampled_to = 0;
  for (double now = 0; now < end_ms;) {
    now += static_cast<double>(plan.interval_ns()) / 1e6;
    Phase load = mean(phases, sampled_to, now);
    uint32_t period = plan.period();
    double taken = halted ? 0 : load.ms / 1000 * load.busy / 1000 * multiprocessors * hz * warps / static_cast<double>(1ull << period);
    // Nobody empties the buffer but our fetch.
    double fill = taken * kRecordBytes / capacity;
    halted = halted || fill >= 1;
    if (halted) taken = 0;
    Fetched fetched{.ns = static_cast<uint64_t>(load.ms * 1e6),
                    .samples = static_cast<uint64_t>(taken),
                    .dropped = static_cast<uint64_t>(taken * load.dropped / 1000),
                    .overflowed = taken > 16384,
                    .full = halted};
    bool anew = plan.observe(fetched);
    if (anew) halted = false;
    printf("%.0f %u %llu %.0f %.0f %d\n", now, period, static_cast<unsigned long long>(fetched.samples), fill >= 1 ? 1000 : fill * 1000,
           static_cast<double>(plan.interval_ns()) / 1e6, anew);
    sampled_to = now;
  }
}
