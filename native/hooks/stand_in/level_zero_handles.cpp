#include "hooks/stand_in/level_zero_handles.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "spool/spool.hpp"

#include <atomic>
#include <cstdio>
#include <cstring>

namespace aiflame::level_zero {

namespace {

// 0, or 1 plus the number of forks that led to the process of the holder: a lock that a thread of the parent held is free in the child.
constinit std::atomic<uint32_t> held{0};
constinit std::atomic<uint32_t> forks{0};
constinit std::atomic<bool> used{false};

constexpr uint32_t kMostDevices = 64;
AIFLAME_LARGE constinit Device devices[kMostDevices];

// A device's name; that of a second one of the same kind has its number, from 1.
void name(Device& device, const char* model) noexcept {
  uint32_t before = 0;
  size_t length = strnlen(model, sizeof(DeviceProperties::name));
  for (const Device* other = devices; other != &device; other++)
    before += strncmp(other->name, model, length) == 0 && (!other->name[length] || other->name[length] == ' ');
  int most = static_cast<int>(length);
  if (before)
    snprintf(device.name, sizeof device.name, "%.*s [%u]", most, model, before);
  else
    snprintf(device.name, sizeof device.name, "%.*s", most, model);
}

// By handle and kind: a driver may give a list and an event the same number.
constexpr uint32_t kObjects = 1 << 17, kSteps = 128;
Object* objects = nullptr;

uint32_t first_place(Kind kind, Handle handle) noexcept {
  return static_cast<uint32_t>(((handle ^ static_cast<uint64_t>(kind) << 60) * 0x9E3779B97F4A7C15u) >> (64 - 17));
}

// Events of ours that are free, by context.
constexpr uint32_t kContexts = 16, kEventsAPool = 256, kPools = 256;
struct Events {
  Handle context;
  Handle pools[kPools];
  uint32_t made, free_count;  // pools, events
  Handle* free;
  Handle* all;
};
AIFLAME_LARGE constinit Events events[kContexts];

Events* events_of(Handle context) noexcept {
  Events* unused = nullptr;
  for (Events& one : events) {
    if (one.context == context) return &one;
    if (!one.context && !unused) unused = &one;
  }
  if (!unused) return nullptr;
  constexpr size_t kBytes = 2 * kPools * kEventsAPool * sizeof(Handle);
  if (!unused->free) unused->free = static_cast<Handle*>(sys::map_memory(kBytes));
  if (!unused->free) return nullptr;
  unused->all = unused->free + kPools * kEventsAPool;
  unused->context = context;
  return unused;
}

bool make_events(const Api& api, Events& of) noexcept {
  if (of.made == kPools) return false;
  EventPoolDescription pool{.type = kEventPoolDescription, .next = nullptr, .flags = kHostVisible | kTimestamps, .count = kEventsAPool};
  if (api.zeEventPoolCreate(of.context, &pool, 0, nullptr, &of.pools[of.made]) != kSuccess) return false;
  Handle* made = of.all + of.made * kEventsAPool;
  for (uint32_t at = 0; at < kEventsAPool; at++) {
    EventDescription event{.type = kEventDescription, .next = nullptr, .index = at, .signal = kHostScope, .wait = kHostScope};
    if (api.zeEventCreate(of.pools[of.made], &event, &made[at]) != kSuccess) made[at] = 0;
    if (made[at]) of.free[of.free_count++] = made[at];
  }
  of.made++;
  return true;
}

}  // namespace

Guard::Guard() noexcept {
  used.store(true, std::memory_order_relaxed);
  uint32_t mine = forks.load(std::memory_order_relaxed) + 1, holder = 0;
  while (!held.compare_exchange_weak(holder, mine, std::memory_order_acquire)) {
    if (holder == mine) {
      holder = 0;
      sys::call(SYS_sched_yield);
    }
  }
}
Guard::~Guard() { held.store(0, std::memory_order_release); }

void forget_objects() noexcept {
  forks.fetch_add(1, std::memory_order_relaxed);
  objects = nullptr;
  if (!used.exchange(false, std::memory_order_relaxed)) return;
  for (Events& one : events)
    if (one.free) one = Events{};
  for (Device& one : devices)
    if (one.handle) one = Device{};
}

void Clock::start(const Api& api, Handle device, const DeviceProperties& properties) noexcept {
  device_ = device;
  // No device's timer has a cycle of a tenth of a millisecond, or ticks fewer than 100,000 times a second.
  constexpr uint64_t kFewest = 100'000;
  uint64_t resolution = properties.timer_resolution;
  if (resolution) ns_a_cycle_ = resolution < kFewest ? static_cast<double>(resolution) : 1e9 / static_cast<double>(resolution);
  uint32_t bits = properties.kernel_timestamp_bits;
  mask_ = bits && bits < 64 ? (1ull << bits) - 1 : ~0ull;
  read(api);
}

void Clock::read(const Api& api) noexcept {
  constexpr uint64_t kLasts = 100'000'000;
  uint64_t now = now_ns(), shortest = ~0ull;
  if (at_ns_ && now - at_ns_ < kLasts) return;
  // The reading thread may be interrupted: the quickest answer counts.
  for (int times = 0; times < 3; times++) {
    uint64_t before = now_ns(), host = 0, stamp = 0;
    if (api.zeDeviceGetGlobalTimestamps(device_, &host, &stamp) != kSuccess) return;
    uint64_t took = now_ns() - before;
    if (took >= shortest) continue;
    shortest = took;
    at_ns_ = before + took / 2;
    at_cycles_ = stamp;
  }
}

uint64_t Clock::to_monotonic(uint64_t stamp) const noexcept {
  uint64_t ago = (at_cycles_ - stamp) & mask_;
  // More than half a turn ago: it is still to come.
  bool after = ago > mask_ / 2;
  auto ns = static_cast<uint64_t>(static_cast<double>(after ? (stamp - at_cycles_) & mask_ : ago) * ns_a_cycle_);
  return after ? at_ns_ + ns : at_ns_ - ns;
}

Device* device(const Api& api, Handle handle) noexcept {
  for (Device& one : devices) {
    if (one.handle == handle) return &one;
    if (one.handle) continue;
    DeviceProperties properties{};
    properties.type = kDeviceProperties12;
    if (api.zeDeviceGetProperties(handle, &properties) != kSuccess) {
      properties = {};
      properties.type = kDeviceProperties;
      if (api.zeDeviceGetProperties(handle, &properties) != kSuccess) return nullptr;
    }
    name(one, properties.name);
    one.clock.start(api, handle, properties);
    one.handle = handle;
    return &one;
  }
  return nullptr;
}

Object* find(Kind kind, Handle handle) noexcept {
  if (!objects || !handle) return nullptr;
  uint32_t place = first_place(kind, handle);
  for (uint32_t step = 0; step < kSteps; step++) {
    Object& object = objects[(place + step) % kObjects];
    if (object.handle == handle && object.kind == kind) return &object;
    if (!object.handle) return nullptr;
  }
  return nullptr;
}

Object* add(Kind kind, Handle handle) noexcept {
  if (!objects) objects = static_cast<Object*>(sys::map_memory(kObjects * sizeof(Object)));
  if (!objects || !handle) return nullptr;
  Object* object = find(kind, handle);
  uint32_t place = first_place(kind, handle);
  for (uint32_t step = 0; !object && step < kSteps; step++) {
    Object& there = objects[(place + step) % kObjects];
    if (!there.handle || there.kind == Kind::GONE) object = &there;
  }
  if (!object) {
    spool::note("Level Zero: too many events and lists at once; some kernels have no device times");
    return nullptr;
  }
  *object = Object{};
  object->handle = handle;
  object->kind = kind;
  return object;
}

void remove(Object& object) noexcept { object.kind = Kind::GONE; }

Handle take_event(const Api& api, Handle context) noexcept {
  Events* of = context ? events_of(context) : nullptr;
  if (!of || (!of->free_count && !make_events(api, *of))) {
    spool::note("Level Zero: no events for all kernels at once; some have no device times");
    return 0;
  }
  return of->free_count ? of->free[--of->free_count] : 0;
}

void give_back_event(Handle context, Handle event) noexcept {
  for (Events& one : events)
    if (one.context == context && one.free_count < kPools * kEventsAPool) one.free[one.free_count++] = event;
}

void end_events(const Api& api, Handle context) noexcept {
  for (Events& one : events) {
    if (!context || one.context != context) continue;
    for (uint32_t at = 0; at < one.made * kEventsAPool; at++)
      if (one.all[at]) api.zeEventDestroy(one.all[at]);
    for (uint32_t at = 0; at < one.made; at++) api.zeEventPoolDestroy(one.pools[at]);
    one.made = one.free_count = 0;
    one.context = 0;
  }
}

}  // namespace aiflame::level_zero
