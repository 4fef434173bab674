// The plan of GPU sampling against a device that we make up.
//
// cuda_sampling_plan MULTIPROCESSORS CLOCK_KHZ SETTING WARPS SECONDS PHASE...: warps that a multiprocessor gives each period; how long it runs; and
// the device's load, again and again: milliseconds:thousandths busy. Prints the period, the buffer's bytes, and how often CUPTI decodes it in ms;
// then a line for each look: the time, the samples that it found, how full the buffer was when they were decoded in thousandths (1000: it
// overflowed), the times of the first and the last of them, and the edges of their window. Times in ms.
#include "hooks/cuda/sampling_plan.hpp"

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

// When it was busy first from then on.
double first_busy(const std::vector<Phase>& phases, double from_ms) {
  while (busy_ms(phases, from_ms, from_ms + 1) <= 0) from_ms += 1;
  return from_ms;
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

  constexpr double kRecordBytes = 32, kDecoding = 1.5, kMs = 1e6;
  double decode_ms = static_cast<double>(plan.decode_ns()) / kMs;
  printf("%u %llu %.0f\n", plan.period(), static_cast<unsigned long long>(plan.device_bytes()), decode_ms);
  double a_ms = static_cast<double>(device.multiprocessors) * device.clock_khz * warps / static_cast<double>(1ull << plan.period());
  double now = 0, decoded = 0, next_decoding = decode_ms;
  plan.begin(0);
  while ((now = static_cast<double>(plan.due_ns()) / kMs) < end_ms) {
    double samples = 0, fill = 0, first = 0, last = 0;
    while (next_decoding <= now) {
      double taken = std::floor(a_ms * busy_ms(phases, decoded, next_decoding));
      fill = std::max(fill, std::min(taken * kRecordBytes / static_cast<double>(plan.device_bytes()), 1.0));
      if (taken > 0) {
        if (samples == 0) first = first_busy(phases, decoded);
        last = next_decoding;
      }
      samples += taken;
      decoded = next_decoding;
      // CUPTI's thread sleeps, decodes, sleeps.
      next_decoding += decode_ms + kDecoding;
    }
    auto now_ns = static_cast<uint64_t>(now * kMs);
    Stretch window = plan.window(now_ns);
    plan.looked(samples > 0, now_ns);
    printf("%.3f %.0f %.0f %.3f %.3f %.3f %.3f\n", now, samples, fill * 1000, first, last, static_cast<double>(window.begin_ns) / kMs,
           static_cast<double>(window.end_ns) / kMs);
  }
}
