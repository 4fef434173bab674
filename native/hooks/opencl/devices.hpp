// OpenCL devices and command queues.
#pragma once
#include "hooks/opencl/api.hpp"

#include <atomic>
#include <cstdint>

namespace aiflame::opencl {

// The relation of a device's clock to CLOCK_MONOTONIC. Time stamps of events come "in nanoseconds of the device's time counter", which may be any
// clock: PoCL's is CLOCK_MONOTONIC_RAW. Possible sources are tried, the best first; a source that contradicts an event (which was queued while the
// enqueueing call ran) is replaced by the next.
class DeviceClock {
 public:
  void start(DeviceId device) noexcept;

  // Learns from one event: the stamp `queued` is between two moments on CLOCK_MONOTONIC, and `ended` has passed.
  void observe(uint64_t queued, uint64_t begin_ns, uint64_t end_ns, uint64_t ended) noexcept;
  uint64_t to_monotonic(uint64_t stamp) const noexcept { return stamp + static_cast<uint64_t>(offset_.load(std::memory_order_relaxed)); }

 private:
  bool measure(uint32_t source, int64_t* offset) noexcept;

  DeviceId device_ = nullptr;
  bool has_timer_ = false;
  std::atomic<uint32_t> source_{0};
  std::atomic<int64_t> offset_{0};
  std::atomic<uint64_t> timer_read_ns_{0};
  std::atomic<int64_t> timer_offset_{0};
};

struct Device {
  std::atomic<DeviceId> id;
  char name[128] = {};
  DeviceClock clock;
};

// nullptr: there are too many.
Device* device_for(DeviceId id) noexcept;
// Its number, from 0.
size_t place_in_table(const Device& device) noexcept;

inline constexpr size_t kMostProperties = 32;

struct QueueInfo {
  uint64_t number;         // unique in the process, unlike the handle
  Device* device;          // nullptr if it could not be queried
  bool profiling_is_ours;  // the program did not ask for time stamps
  bool made_with_list;     // by clCreateCommandQueueWithProperties, with this list as the program wrote it (no words: NULL)
  uint64_t list[kMostProperties];
  size_t list_words;
};

// Adds a new queue. `info` need not have a number or device.
void add_queue(Queue queue, DeviceId device, QueueInfo info) noexcept;
void remove_queue(Queue queue) noexcept;
// A queue that was added; find_queue() queries and adds a queue whose creation we did not see. nullptr if there is no room.
const QueueInfo* find_queue(Queue queue) noexcept;
// As find_queue(), but only for a queue to which we added profiling.
const QueueInfo* find_our_profiling(Queue queue) noexcept;

}  // namespace aiflame::opencl
