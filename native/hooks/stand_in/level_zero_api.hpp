// The part of Level Zero that we use. Handles are words; structures as in ze_api.h of version 1.0 on, which later ones have only added to.
#pragma once
#include "hooks/stand_in/stand_in.hpp"

#include <cstddef>
#include <cstdint>

namespace aiflame::level_zero {

using Handle = uint64_t;
inline constexpr uint32_t kSuccess = 0, kNotReady = 1;
inline constexpr uint32_t kQueryTrue = 0x78000022, kQueryTrueExp = 0x7fff0000;

inline constexpr uint32_t kDeviceProperties = 0x3, kEventPoolDescription = 0x10, kEventDescription = 0x11, kMemoryProperties = 0x17,
                          kPciProperties = 0x10008;
inline constexpr uint32_t kElfDwarf = 0;
// The same structure, in which the timer's resolution is in cycles a second, not in whole nanoseconds for each cycle. Drivers older than it fail, or
// take it for the other.
inline constexpr uint32_t kDeviceProperties12 = 0x20006;

inline constexpr uint32_t kHostVisible = 1, kIpc = 2, kTimestamps = 4, kMappedTimestamps = 8;
inline constexpr uint32_t kCountingHostVisible = 4, kCountingIpc = 8, kCountingTimestamps = 16, kCountingHostTimestamps = 32;
inline constexpr uint32_t kHostScope = 4;
inline constexpr uint32_t kSynchronous = 1;
enum MemoryType : uint32_t { UNKNOWN, HOST, DEVICE, SHARED };

struct EventPoolDescription {
  uint32_t type;
  const void* next;
  uint32_t flags, count;
};

struct EventDescription {
  uint32_t type;
  const void* next;
  uint32_t index, signal, wait;
};

struct CountingEventDescription {
  uint32_t type;
  const void* next;
  uint32_t flags, signal, wait;
};

struct QueueDescription {
  uint32_t type;
  const void* next;
  uint32_t ordinal, index, flags, mode, priority;
};

struct GroupCount {
  uint32_t x, y, z;
};

struct CopyRegion {
  uint32_t x, y, z, width, height, depth;
};

struct DeviceProperties {
  uint32_t type;
  void* next;
  uint32_t kind, vendor, device, flags, subdevice, core_clock;
  uint64_t largest_allocation;
  uint32_t contexts, priority, threads_per_unit, simd, units, subslices, slices;
  uint64_t timer_resolution;
  uint32_t timestamp_bits, kernel_timestamp_bits;
  uint8_t uuid[16];
  char name[256];
};
static_assert(offsetof(DeviceProperties, timer_resolution) == 80 && offsetof(DeviceProperties, name) == 112);

struct PciProperties {
  uint32_t type;
  void* next;
  uint32_t domain, bus, device, function;
  int32_t generation, width;
  int64_t bandwidth;
};

struct MemoryProperties {
  uint32_t type;
  void* next;
  uint32_t kind;
  uint64_t id, page;
};

struct Timestamps {
  uint64_t start, end;                  // by the device's clock
  uint64_t context_start, context_end;  // cycles in which the context ran
};

// The driver's functions, past ours.
struct Api {
  uint32_t (*zeDeviceGetProperties)(Handle device, DeviceProperties* properties);
  uint32_t (*zeDeviceGetGlobalTimestamps)(Handle device, uint64_t* host, uint64_t* stamp);
  uint32_t (*zeMemGetAllocProperties)(Handle context, const void* memory, MemoryProperties* properties, Handle* device);
  uint32_t (*zeKernelGetName)(Handle kernel, size_t* bytes, char* name);
  uint32_t (*zeEventPoolCreate)(Handle context, const EventPoolDescription* description, uint32_t count, Handle* devices, Handle* pool);
  uint32_t (*zeEventPoolDestroy)(Handle pool);
  uint32_t (*zeEventCreate)(Handle pool, const EventDescription* description, Handle* event);
  uint32_t (*zeEventDestroy)(Handle event);
  uint32_t (*zeEventQueryStatus)(Handle event);
  uint32_t (*zeEventQueryKernelTimestamp)(Handle event, Timestamps* stamps);
  uint32_t (*zeEventHostReset)(Handle event);
  // nullptr where the loader lacks them.
  uint32_t (*zetModuleGetDebugInfo)(Handle module, uint32_t format, size_t* size, uint8_t* bytes);
  uint32_t (*zeCommandListAppendBarrier)(Handle list, Handle event, uint32_t count, Handle* waits);
  uint32_t (*zeCommandListIsGraphCaptureEnabledExt)(Handle list);
  uint32_t (*zeDevicePciGetPropertiesExt)(Handle device, PciProperties* properties);
};
// nullptr: the loader lacks one of them.
const Api* api(stand_in::Library& library) noexcept;

}  // namespace aiflame::level_zero
