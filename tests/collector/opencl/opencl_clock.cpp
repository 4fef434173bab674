// Device clocks of every kind against CLOCK_MONOTONIC, without a driver: a table of functions of our own stands in for the loader.
//
// opencl_clock KIND enqueues a thousand commands and prints a line for each: how far (ns) the conversion of its stamp was off, and how
// long the enqueueing call took.
#include "base/clock.hpp"
#include "hooks/opencl/devices.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

using namespace aiflame;
using namespace aiflame::opencl;

namespace {

// The device's clock runs 200 millionths fast and began at another time; or it is one of the host's.
enum class Kind { RAW, OWN, OWN_WITH_TIMER, OWN_WITH_WRONG_TIMER } kind;
uint64_t started;

uint64_t device_now() {
  if (kind == Kind::RAW) return clock_ns(CLOCK_MONOTONIC_RAW);
  uint64_t ran = now_ns() - started;
  return 77'000'000'000u + ran + ran / 5000;
}

int32_t get_device_info(DeviceId, uint32_t name, size_t room, void* value, size_t*) {
  if (name == kDeviceVersion) strncpy(static_cast<char*>(value), "OpenCL 3.0 test", room);
  auto platform = reinterpret_cast<Platform>(1);
  if (name == kDevicePlatform) memcpy(value, &platform, sizeof platform);
  return kSuccess;
}

int32_t get_platform_info(Platform, uint32_t, size_t, void* value, size_t*) {
  uint64_t resolution = kind == Kind::OWN_WITH_TIMER || kind == Kind::OWN_WITH_WRONG_TIMER ? 1 : 0;
  memcpy(value, &resolution, sizeof resolution);
  return kSuccess;
}

int32_t get_device_and_host_timer(DeviceId, uint64_t* device, uint64_t* host) {
  *device = kind == Kind::OWN_WITH_WRONG_TIMER ? device_now() / 1000 : device_now();
  *host = now_ns();
  return kSuccess;
}

void wait_ns(uint64_t time) {
  for (uint64_t end = now_ns() + time; now_ns() < end;) {
  }
}

}  // namespace

int main(int, char** arguments) {
  std::string_view name = arguments[1];
  kind = name == "raw" ? Kind::RAW : name == "own" ? Kind::OWN : name == "timer" ? Kind::OWN_WITH_TIMER : Kind::OWN_WITH_WRONG_TIMER;
  started = now_ns();
  const void* table[kGetDeviceAndHostTimer.index + 1] = {};
  table[kGetDeviceInfo.index] = reinterpret_cast<const void*>(get_device_info);
  table[kGetPlatformInfo.index] = reinterpret_cast<const void*>(get_platform_info);
  table[kGetDeviceAndHostTimer.index] = reinterpret_cast<const void*>(get_device_and_host_timer);
  next_table = table;
  next_entries = kGetDeviceAndHostTimer.index + 1;
  DeviceClock clock;
  clock.start(reinterpret_cast<DeviceId>(1));
  for (int command = 0; command < 1000; command++) {
    // The first call compiles: its moments are far apart.
    uint64_t begin = now_ns();
    wait_ns(command ? 2'000 : 20'000'000);
    uint64_t truth = now_ns(), queued = device_now();
    wait_ns(command ? 2'000 : 20'000'000);
    uint64_t end = now_ns();
    clock.observe(queued, begin, end, queued);
    printf("%lld %llu\n", static_cast<long long>(clock.to_monotonic(queued) - truth), static_cast<unsigned long long>(end - begin));
    wait_ns(command % 100 ? 20'000 : 5'000'000);
  }
}
