// Chooses the counters of a device, as many as it can count at once.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aiflame::cuda::counters {

struct Metric {
  const char* name;    // our name
  const char* vendor;  // CUPTI's name: a counter and how it is summed over the device
  uint32_t divisor;    // CUPTI's value is this many times ours
};

constexpr uint32_t kMostMetrics = 32;

struct Metrics {
  uint32_t count;
  Metric list[kMostMetrics];
};

// Memory of CUPTI's: a configuration, or samples. CUPTI reads a configuration as long as it counts.
struct Image {
  uint8_t* bytes;
  size_t size;
};

class Host;

// Chooses, from the wanted counters, as many as the chip counts in one pass, the most useful first. `availability`: CUPTI's answer about the device.
// `host` is left open, and knows them. False if the device can count none; a note says so.
bool choose(const char* chip, const Image& availability, Metrics& chosen, Image& configuration, Host& host) noexcept;

}  // namespace aiflame::cuda::counters
