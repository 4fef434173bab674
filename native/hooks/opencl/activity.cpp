#include "hooks/opencl/activity.hpp"

#include "base/clock.hpp"
#include "base/sys.hpp"
#include "hooks/opencl/devices.hpp"
#include "hooks/opencl/opencl.hpp"
#include "hooks/opencl/programs.hpp"
#include "hooks/python/bridge.hpp"
#include "records/kernel_shapes.hpp"
#include "sampler/capture.hpp"
#include "sampler/threads.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <atomic>
#include <cstring>

namespace aiflame::opencl {

namespace {

// Commands in flight. A command's correlation is a number counted from 1, and its place here is that number modulo kMost: a callback
// that comes when somebody else has already collected its command finds another owner in the place, and does nothing.
constexpr uint64_t kMost = 1 << 16;
constexpr uint64_t kFree = 0, kBusy = ~0ull;

struct Pending {
  std::atomic<uint64_t> owner;      // correlation, kFree or kBusy (being filled, or being written out)
  std::atomic<uint64_t> completed;  // correlation whose callback came while the place was busy
  Event event;
  Queue queue;
  uint64_t stream;
  Device* device;
  uint64_t begin_ns, end_ns;
  uint32_t name;
  uint32_t recording;
  Work work;
};

std::atomic<Pending*> all;
std::atomic<uint32_t> recording{0};
std::atomic<uint64_t> last{0};    // newest correlation
std::atomic<uint64_t> oldest{1};  // none before it is in flight

Pending* reserve(uint64_t* correlation) noexcept {
  Pending* table = all.load(std::memory_order_acquire);
  if (!table) {
    auto* made = static_cast<Pending*>(sys::map_memory(kMost * sizeof(Pending)));
    if (!made) return nullptr;
    if (all.compare_exchange_strong(table, made))
      table = made;
    else
      sys::unmap_memory(made, kMost * sizeof(Pending));
  }
  // The place first, then the number: a number that collect() can see has been in use.
  for (int tries = 0; tries < 64; tries++) {
    uint64_t number = last.load(std::memory_order_acquire), free = kFree;
    Pending& pending = table[(number + 1) % kMost];
    bool mine = pending.owner.compare_exchange_strong(free, kBusy, std::memory_order_acquire);
    *correlation = number + 1;
    if (last.compare_exchange_strong(number, *correlation) && mine) return &pending;
    if (mine) pending.owner.store(kFree, std::memory_order_release);
  }
  *correlation = last.fetch_add(1) + 1;
  spool::note("OpenCL: more than 65536 commands in flight; some have no device times");
  return nullptr;
}

uint32_t kernel_name(Kernel kernel) noexcept {
  char name[1024] = {};
  size_t bytes = 0;
  if (next(kGetKernelInfo)(kernel, kKernelFunctionName, sizeof name, name, &bytes) != kSuccess) return spool::text("[kernel with a very long name]");
  return spool::text({name, strnlen(name, sizeof name)});
}

void write(const Pending& pending, uint64_t correlation) noexcept {
  control::Use use;
  if (pending.recording != recording.load()) return;
  auto stamp = [&](uint32_t which) { return get<uint64_t>(kGetEventProfilingInfo, pending.event, which); };
  uint64_t queued = stamp(kProfilingQueued), start = stamp(kProfilingStart), end = stamp(kProfilingEnd);
  if (!start || !end) return spool::note("OpenCL: a command queue gave no time stamps; its commands have no device times");
  DeviceClock& clock = pending.device->clock;
  clock.observe(queued, pending.begin_ns, pending.end_ns, end);
  const Work& work = pending.work;
  uint32_t device = spool::text(pending.device->name);
  auto api = static_cast<uint32_t>(schema::GpuApi::OPENCL);
  if (work.kernel)
    spool::append(schema::KernelRecord{.shape = kernel_shapes::row({.name = pending.name,
                                                                    .device = device,
                                                                    .api = api,
                                                                    .grid_x = work.grid[0],
                                                                    .grid_y = work.grid[1],
                                                                    .grid_z = work.grid[2],
                                                                    .block_x = work.block[0],
                                                                    .block_y = work.block[1],
                                                                    .block_z = work.block[2]}),
                                       .correlation = correlation,
                                       .start_ns = clock.to_monotonic(start),
                                       .end_ns = clock.to_monotonic(end),
                                       .stream = static_cast<uint32_t>(pending.stream),
                                       .api = static_cast<uint8_t>(api)});
  else
    spool::append(schema::CopyRecord{.kind = static_cast<uint32_t>(work.copy),
                                     .device = device,
                                     .api = api,
                                     .correlation = correlation,
                                     .start_ns = clock.to_monotonic(start),
                                     .end_ns = clock.to_monotonic(end),
                                     .bytes = work.bytes,
                                     .stream = static_cast<uint32_t>(pending.stream)});
}

// Writes out a command if it has completed. Nobody waits: a thread that finds the place busy sets a flag for the thread that holds it, and goes on.
void collect_one(Pending& pending, uint64_t correlation) noexcept {
  for (;;) {
    uint64_t owner = correlation;
    if (!pending.owner.compare_exchange_strong(owner, kBusy)) {
      if (owner != kBusy || pending.completed.exchange(correlation) == correlation) return;
      continue;  // its holder may have put it back before our flag was set
    }
    auto status = get<int32_t>(kGetEventInfo, pending.event, kEventStatus, -1);
    if (status <= kComplete) {
      if (status == kComplete) write(pending, correlation);
      Event event = pending.event;
      pending.owner.store(kFree);
      next(kReleaseEvent)(event);
      return;
    }
    pending.owner.store(correlation);
    if (pending.completed.exchange(0) != correlation) return;
  }
}

void completed(Event, int32_t, void* argument) noexcept {
  auto correlation = reinterpret_cast<uint64_t>(argument);
  collect_one(all.load(std::memory_order_acquire)[correlation % kMost], correlation);
}

}  // namespace

Launching launching(const Registers& caller) noexcept {
  Thread* thread = threads::self();
  Launching launch{};
  if (thread) launch = {.thread = thread->row, .stack = capture(*thread, caller)};
  launch.recording = recording.load();
  launch.begin_ns = now_ns();
  return launch;
}

void launched(const Launching& launch, Queue queue, const Work& work, Event event) noexcept {
  uint64_t end_ns = now_ns(), correlation = 0;
  control::Use use;
  bool same_recording = launch.recording == recording.load();
  Pending* pending = same_recording ? reserve(&correlation) : nullptr;
  if (same_recording)
    spool::append(schema::Launch{.thread = launch.thread,
                                 .stack = launch.stack,
                                 .api = static_cast<uint16_t>(schema::GpuApi::OPENCL),
                                 .begin_ns = launch.begin_ns,
                                 .end_ns = end_ns,
                                 .correlation = correlation});
  bridge::poke(end_ns);
  const QueueInfo* info = pending ? find_queue(queue) : nullptr;
  if (!info || !info->device) {
    if (pending) pending->owner.store(kFree, std::memory_order_release);
    next(kReleaseEvent)(event);
    return;
  }
  pending->event = event;
  pending->queue = queue;
  pending->stream = info->number;
  pending->device = info->device;
  pending->begin_ns = launch.begin_ns;
  pending->end_ns = end_ns;
  pending->name = work.kernel ? kernel_name(work.kernel) : 0;
  pending->recording = launch.recording;
  pending->work = work;
  pending->owner.store(correlation, std::memory_order_release);
  if (work.blocking) return collect(queue);
  next(kSetEventCallback)(event, kComplete, completed, reinterpret_cast<void*>(correlation));
}

void collect(Queue queue) noexcept {
  Pending* table = all.load(std::memory_order_acquire);
  if (!table) return;
  uint64_t newest = last.load(std::memory_order_acquire), known = oldest.load(std::memory_order_acquire);
  uint64_t still = newest >= known + kMost ? newest - kMost + 1 : known;
  for (uint64_t correlation = still; correlation <= newest; correlation++) {
    Pending& pending = table[correlation % kMost];
    uint64_t owner = pending.owner.load(std::memory_order_acquire);
    if (owner == correlation && (!queue || pending.queue == queue)) {
      collect_one(pending, correlation);
      owner = pending.owner.load(std::memory_order_acquire);
    }
    if (owner == kFree && still == correlation) still++;
  }
  oldest.compare_exchange_strong(known, still);
}

void forget_rows() noexcept {
  recording.fetch_add(1);
  forget_programs();
}

}  // namespace aiflame::opencl
