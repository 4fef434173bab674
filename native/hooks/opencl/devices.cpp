#include "hooks/opencl/devices.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "spool/spool.hpp"

#include <algorithm>
#include <cstring>

namespace aiflame::opencl {

namespace {

constexpr uint32_t kMostQueues = 4096;
constexpr uint32_t kMostDevices = 64;
const auto kGone = reinterpret_cast<Queue>(1);

struct Slot {
  std::atomic<Queue> queue;
  QueueInfo info;
};

std::atomic<Slot*> slots;
std::atomic<uint64_t> last_number;
AIFLAME_LARGE constinit Device devices[kMostDevices];
std::atomic_flag writing;

// Writers are rare (a queue is made, a device first seen); readers never wait.
struct Writer {
  Writer() noexcept {
    while (writing.test_and_set(std::memory_order_acquire)) sys::call(SYS_sched_yield);
  }
  ~Writer() { writing.clear(std::memory_order_release); }
};

uint32_t first_place(Queue queue) noexcept { return static_cast<uint32_t>((reinterpret_cast<uint64_t>(queue) * 0x9E3779B97F4A7C15u) >> 52); }
static_assert(kMostQueues == 1 << (64 - 52));

Slot* find(Queue queue) noexcept {
  Slot* table = slots.load(std::memory_order_acquire);
  if (!table || !queue) return nullptr;
  uint32_t place = first_place(queue);
  for (uint32_t step = 0; step < kMostQueues; step++) {
    Slot& slot = table[(place + step) % kMostQueues];
    Queue at = slot.queue.load(std::memory_order_acquire);
    if (at == queue) return &slot;
    if (!at) return nullptr;
  }
  return nullptr;
}

Slot* place_for(Queue queue) noexcept {
  Slot* table = slots.load(std::memory_order_acquire);
  if (!table) {
    table = static_cast<Slot*>(sys::map_memory(kMostQueues * sizeof(Slot)));
    if (!table) return nullptr;
    slots.store(table, std::memory_order_release);
  }
  if (Slot* known = find(queue)) return known;  // a handle used again whose release we did not see
  uint32_t place = first_place(queue);
  for (uint32_t step = 0; step < kMostQueues; step++) {
    Slot& slot = table[(place + step) % kMostQueues];
    Queue at = slot.queue.load(std::memory_order_relaxed);
    if (!at || at == kGone) return &slot;
  }
  return nullptr;
}

Device* device_for(DeviceId id, const Writer&) noexcept {
  if (!id) return nullptr;
  for (Device& device : devices) {
    DeviceId at = device.id.load(std::memory_order_acquire);
    if (at == id) return &device;
    if (at) continue;
    if (next(kGetDeviceInfo)(id, kDeviceName, sizeof device.name - 1, device.name, nullptr) != kSuccess) strcpy(device.name, "OpenCL device");
    device.clock.start(id);
    device.id.store(id, std::memory_order_release);
    return &device;
  }
  return nullptr;
}

}  // namespace

Device* device_for(DeviceId id) noexcept { return device_for(id, Writer()); }

size_t place_in_table(const Device& device) noexcept { return static_cast<size_t>(&device - devices); }

void add_queue(Queue queue, DeviceId device, QueueInfo info) noexcept {
  Writer writer;
  info.number = last_number.fetch_add(1, std::memory_order_relaxed) + 1;
  info.device = device_for(device, writer);
  Slot* slot = place_for(queue);
  if (!slot) return spool::note("OpenCL: more than 4096 command queues at once; the others have no device times");
  slot->info = info;
  slot->queue.store(queue, std::memory_order_release);
}

void remove_queue(Queue queue) noexcept {
  Writer writer;
  if (Slot* slot = find(queue)) slot->queue.store(kGone, std::memory_order_release);
}

const QueueInfo* find_queue(Queue queue) noexcept {
  Slot* slot = find(queue);
  if (!slot) {
    auto device = get<DeviceId>(kGetCommandQueueInfo, queue, kQueueDevice);
    if (!device) return nullptr;
    add_queue(queue, device, QueueInfo{});
    slot = find(queue);
  }
  return slot ? &slot->info : nullptr;
}

const QueueInfo* find_our_profiling(Queue queue) noexcept {
  Slot* slot = find(queue);
  return slot && slot->info.profiling_is_ours ? &slot->info : nullptr;
}

// Clocks.

namespace {

enum Source : uint32_t { kTimer, kRaw, kMonotonic, kRealtime, kBoottime, kTracked };
constexpr clockid_t kHostClocks[] = {0, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME};
constexpr uint64_t kTimerLasts = 100'000'000;
constexpr int64_t kSlack = 20'000;  // a stamp may be rounded to the device's resolution

int64_t difference(uint64_t a, uint64_t b) noexcept { return static_cast<int64_t>(a - b); }

// Asking the timer of a driver that has none may crash in the loader: OpenCL 2.1 and a resolution other than 0 promise it.
bool promises_timer(DeviceId device) noexcept {
  char version[64] = {};
  if (!next(kGetDeviceAndHostTimer)) return false;
  if (next(kGetDeviceInfo)(device, kDeviceVersion, sizeof version - 1, version, nullptr) != kSuccess) return false;
  if (strncmp(version, "OpenCL ", 7) != 0 || strcmp(version + 7, "2.1") < 0) return false;
  auto platform = get<Platform>(kGetDeviceInfo, device, kDevicePlatform);
  return platform && get<uint64_t>(kGetPlatformInfo, platform, kPlatformHostTimerResolution) != 0;
}

}  // namespace

void DeviceClock::start(DeviceId device) noexcept {
  device_ = device;
  has_timer_ = promises_timer(device);
  source_.store(has_timer_ ? kTimer : kRaw, std::memory_order_relaxed);
}

void DeviceClock::observe(uint64_t queued, uint64_t begin_ns, uint64_t end_ns, uint64_t ended) noexcept {
  int64_t low = difference(begin_ns, queued), high = std::min(difference(end_ns, queued), difference(now_ns(), ended)), offset = 0;
  auto possible = [&] { return low - kSlack <= offset && offset <= high + kSlack; };
  uint32_t source = source_.load(std::memory_order_relaxed);
  for (; source < kTracked; source++) {
    if (measure(source, &offset) && possible()) break;
    timer_read_ns_.store(0, std::memory_order_relaxed);
    if (source == kTimer && measure(source, &offset) && possible()) break;  // it had only drifted
  }
  if (source == kTracked) {
    // Every event narrows the possible offsets: stay within the bounds of the newest one.
    bool first = source_.load(std::memory_order_relaxed) != kTracked;
    offset = first ? high : std::clamp(offset_.load(std::memory_order_relaxed), std::min(low, high), high);
  }
  offset_.store(offset, std::memory_order_relaxed);
  source_.store(source, std::memory_order_relaxed);
}

bool DeviceClock::measure(uint32_t source, int64_t* offset) noexcept {
  if (source != kTimer) {
    uint64_t before = now_ns(), theirs = clock_ns(kHostClocks[source]), after = now_ns();
    *offset = difference(before + (after - before) / 2, theirs);
    return true;
  }
  uint64_t before = now_ns(), stamp, host;
  if (!has_timer_) return false;
  if (uint64_t read = timer_read_ns_.load(std::memory_order_relaxed); !read || before - read > kTimerLasts) {
    if (next(kGetDeviceAndHostTimer)(device_, &stamp, &host) != kSuccess) return false;
    timer_offset_.store(difference(before + (now_ns() - before) / 2, stamp), std::memory_order_relaxed);
    timer_read_ns_.store(before, std::memory_order_relaxed);
  }
  *offset = timer_offset_.load(std::memory_order_relaxed);
  return true;
}

}  // namespace aiflame::opencl
