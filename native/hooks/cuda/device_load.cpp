#include "hooks/cuda/device_load.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "hooks/cuda/counters.hpp"
#include "hooks/cuda/sampling.hpp"
#include "spool/control.hpp"

#include <algorithm>
#include <atomic>

namespace aiflame::cuda {

constinit std::atomic<bool> launched_since{false};

namespace {

constexpr uint32_t kMostDevices = 64;

// Kernels of several streams come about in the order of their ends. Written by whichever thread CUPTI gives a buffer to.
struct Device {
  std::atomic<uint64_t> busy_ns, launches, busy_until_ns;
  std::atomic<uint32_t> correlation;  // of the last kernel: those of a graph's launch share one
  // The worker's.
  Load seen;
  DeviceChoice choice;
};
AIFLAME_LARGE constinit Device devices[kMostDevices];
// Most processes have none: then forget_loads() touches none of them.
constinit std::atomic<bool> any_counted{false};

bool chooses() noexcept { return control::page().gpu_sampling == static_cast<uint32_t>(schema::GpuSampling::AUTO); }
bool may_count() noexcept { return control::page().gpu_counters != static_cast<uint32_t>(schema::GpuCounters::OFF); }

// Since the last time.
Load load_of(Device& device) noexcept {
  uint64_t now = now_ns();
  Load all{.ns = now, .busy_ns = device.busy_ns.load(std::memory_order_relaxed), .launches = device.launches.load(std::memory_order_relaxed)};
  Load since{
      .ns = device.seen.ns ? now - device.seen.ns : 0, .busy_ns = all.busy_ns - device.seen.busy_ns, .launches = all.launches - device.seen.launches};
  device.seen = all;
  return since;
}

// `launched`: the program has launched something since the last time, which can only have been for this device.
void choose(uint32_t number, Device& device, bool launched) noexcept {
  bool samples = sampling::sampled(number);
  if (!samples && !sampling::paused(number)) return;
  any_counted.store(true, std::memory_order_relaxed);
  if (!chooses()) {
    // After a stretch in which all launches were heard: one that began before the recording has ended by then.
    if (!samples && load_of(device).ns) sampling::resume(number);
    return;
  }
  uint64_t now = now_ns();
  Load load = load_of(device);
  // CUPTI delivers records when all kernels of a buffer have ended: where none came despite launches, the device was busy when it was asked.
  if (!samples && !load.launches && !launched) return;
  if (!samples && !load.launches) load.busy_ns = load.ns;
  if (device.choice.should_sample(samples, load, now) == samples) {
    // A context that was found: its stalls are not worth their cost so far.
    if (!samples && load.ns && !device.choice.wavers()) counters::want(number, may_count());
    return;
  }
  if (samples) {
    if (!sampling::pause(number)) return;
    counters::want(number, may_count());
  } else {
    counters::want(number, false);
    counters::read();
    if (counters::busy(number)) return;
    if (!sampling::resume(number)) return counters::want(number, may_count());
  }
  device.choice.changed(now_ns());
}

}  // namespace

void count_kernel(uint32_t number, uint32_t correlation, uint64_t start_ns, uint64_t end_ns) noexcept {
  if (number >= kMostDevices) return;
  if (!any_counted.load(std::memory_order_relaxed)) any_counted.store(true, std::memory_order_relaxed);
  Device& device = devices[number];
  uint64_t until = device.busy_until_ns.load(std::memory_order_relaxed);
  if (end_ns > until) {
    device.busy_until_ns.store(end_ns, std::memory_order_relaxed);
    device.busy_ns.fetch_add(end_ns - std::max(start_ns, until), std::memory_order_relaxed);
  }
  if (device.correlation.exchange(correlation, std::memory_order_relaxed) != correlation) device.launches.fetch_add(1, std::memory_order_relaxed);
}

void choose_for_devices() noexcept {
  bool launched = launched_since.exchange(false, std::memory_order_relaxed);
  uint32_t found = 0;
  for (uint32_t number = 0; number < kMostDevices; number++) found += sampling::paused(number) || sampling::sampled(number);
  for (uint32_t number = 0; number < kMostDevices; number++)
    if (devices[number].launches.load(std::memory_order_relaxed) || sampling::paused(number)) choose(number, devices[number], launched && found == 1);
}

void forget_loads() noexcept {
  if (!any_counted.exchange(false)) return;
  for (Device& device : devices) {
    device.busy_ns = device.launches = device.busy_until_ns = 0;
    device.seen = {};
    device.choice = {};
  }
}

}  // namespace aiflame::cuda
