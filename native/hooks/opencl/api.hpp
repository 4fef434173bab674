// The part of OpenCL that we use, declared here so that building needs no OpenCL headers and the library no libOpenCL.
//
// An ICD loader passes a table of functions to a layer, and gets one back. The table's order never changes: struct _cl_icd_dispatch in CL/cl_icd.h of
// Khronos' OpenCL-Headers; new functions are only added at its end. Constants come from CL/cl.h.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aiflame::opencl {

using Platform = struct _cl_platform_id*;
using DeviceId = struct _cl_device_id*;
using Context = struct _cl_context*;
using Queue = struct _cl_command_queue*;
using Memory = struct _cl_mem*;
using Program = struct _cl_program*;
using Kernel = struct _cl_kernel*;
using Event = struct _cl_event*;
using Bool = uint32_t;
using Waits = const Event*;
using Sizes = const size_t*;
using EventCallback = void (*)(Event, int32_t status, void*);
using BuildCallback = void (*)(Program, void*);

inline constexpr int32_t kSuccess = 0, kProfilingInfoNotAvailable = -7, kInvalidValue = -30;
inline constexpr int32_t kComplete = 0;

inline constexpr uint32_t kPlatformHostTimerResolution = 0x0905;
inline constexpr uint32_t kDeviceType = 0x1000, kDeviceVendorId = 0x1001, kDevicePciBusInfo = 0x410F;
inline constexpr uint32_t kIntel = 0x8086;
inline constexpr uint64_t kGpu = 1 << 2;
inline constexpr uint32_t kDeviceName = 0x102B, kDeviceVersion = 0x102F, kDevicePlatform = 0x1031;
inline constexpr uint32_t kQueueDevice = 0x1091, kQueueReferenceCount = 0x1092, kQueueProperties = 0x1093, kQueuePropertiesArray = 0x1098;
inline constexpr uint64_t kProfilingEnable = 1 << 1, kOnDevice = 1 << 2;
inline constexpr uint64_t kMigrateToHost = 1 << 0;
inline constexpr uint32_t kMemorySize = 0x1102, kImageElementSize = 0x1111;
inline constexpr uint32_t kProgramDeviceCount = 0x1162, kProgramDevices = 0x1163;
// Of Intel's driver: for each device, the size of the code that it has for debuggers, and a place to which it copies that.
inline constexpr uint32_t kProgramDebugInfo = 0x4100, kProgramDebugInfoSizes = 0x4101;
inline constexpr uint32_t kKernelFunctionName = 0x1190;
inline constexpr uint32_t kEventQueue = 0x11D0, kEventStatus = 0x11D3;
inline constexpr uint32_t kProfilingQueued = 0x1280, kProfilingStart = 0x1282, kProfilingEnd = 0x1283;

inline constexpr uint32_t kLayerApiVersion = 0x4240, kLayerName = 0x4241, kLayerApiVersion100 = 100;

// A function's place in the table, and its type.
template <class Function>
struct Entry {
  uint32_t index;
};
template <class Object>
using Get = int32_t(Object, uint32_t name, size_t room, void* value, size_t* size);

inline constexpr Entry<Get<Platform>> kGetPlatformInfo{1};
inline constexpr Entry<Get<DeviceId>> kGetDeviceInfo{3};
inline constexpr Entry<Queue(Context, DeviceId, uint64_t properties, int32_t* error)> kCreateCommandQueue{9};
inline constexpr Entry<int32_t(Queue)> kReleaseCommandQueue{11};
inline constexpr Entry<Get<Queue>> kGetCommandQueueInfo{12};
inline constexpr Entry<Get<Memory>> kGetMemObjectInfo{20};
inline constexpr Entry<Get<Memory>> kGetImageInfo{21};
inline constexpr Entry<int32_t(Program)> kReleaseProgram{29};
inline constexpr Entry<int32_t(Program, uint32_t count, const DeviceId*, const char* options, BuildCallback, void*)> kBuildProgram{30};
inline constexpr Entry<Get<Program>> kGetProgramInfo{32};
inline constexpr Entry<Kernel(Program, const char* name, int32_t* error)> kCreateKernel{34};
inline constexpr Entry<int32_t(Program, uint32_t count, Kernel*, uint32_t* made)> kCreateKernelsInProgram{35};
inline constexpr Entry<Get<Kernel>> kGetKernelInfo{39};
inline constexpr Entry<int32_t(uint32_t count, Waits)> kWaitForEvents{41};
inline constexpr Entry<Get<Event>> kGetEventInfo{42};
inline constexpr Entry<int32_t(Event)> kRetainEvent{43};
inline constexpr Entry<int32_t(Event)> kReleaseEvent{44};
inline constexpr Entry<Get<Event>> kGetEventProfilingInfo{45};
inline constexpr Entry<int32_t(Queue)> kFinish{47};
inline constexpr Entry<int32_t(Queue, Memory, Bool, size_t offset, size_t bytes, void*, uint32_t, Waits, Event*)> kEnqueueReadBuffer{48};
inline constexpr Entry<int32_t(Queue, Memory, Bool, size_t offset, size_t bytes, const void*, uint32_t, Waits, Event*)> kEnqueueWriteBuffer{49};
inline constexpr Entry<int32_t(Queue, Memory, Memory, size_t, size_t, size_t bytes, uint32_t, Waits, Event*)> kEnqueueCopyBuffer{50};
inline constexpr Entry<int32_t(Queue, Memory, Bool, Sizes, Sizes region, size_t, size_t, void*, uint32_t, Waits, Event*)> kEnqueueReadImage{51};
inline constexpr Entry<int32_t(Queue, Memory, Bool, Sizes, Sizes region, size_t, size_t, const void*, uint32_t, Waits, Event*)> kEnqueueWriteImage{
    52};
inline constexpr Entry<int32_t(Queue, Memory, Memory, Sizes, Sizes, Sizes region, uint32_t, Waits, Event*)> kEnqueueCopyImage{53};
inline constexpr Entry<int32_t(Queue, Memory image, Memory, Sizes, Sizes region, size_t, uint32_t, Waits, Event*)> kEnqueueCopyImageToBuffer{54};
inline constexpr Entry<int32_t(Queue, Memory, Memory image, size_t, Sizes, Sizes region, uint32_t, Waits, Event*)> kEnqueueCopyBufferToImage{55};
inline constexpr Entry<void*(Queue, Memory, Bool, uint64_t flags, size_t, size_t bytes, uint32_t, Waits, Event*, int32_t* error)> kEnqueueMapBuffer{
    56};
inline constexpr Entry<void*(Queue, Memory, Bool, uint64_t, Sizes, Sizes region, size_t*, size_t*, uint32_t, Waits, Event*, int32_t*)>
    kEnqueueMapImage{57};
inline constexpr Entry<int32_t(Queue, Memory, void*, uint32_t, Waits, Event*)> kEnqueueUnmapMemObject{58};
inline constexpr Entry<int32_t(Queue, Kernel, uint32_t dimensions, Sizes, Sizes global, Sizes local, uint32_t, Waits, Event*)> kEnqueueNDRangeKernel{
    59};
inline constexpr Entry<int32_t(Queue, Kernel, uint32_t, Waits, Event*)> kEnqueueTask{60};
inline constexpr Entry<int32_t(Event, int32_t status, EventCallback, void*)> kSetEventCallback{81};
inline constexpr Entry<int32_t(Queue, Memory, Bool, Sizes, Sizes, Sizes region, size_t, size_t, size_t, size_t, void*, uint32_t, Waits, Event*)>
    kEnqueueReadBufferRect{86};
inline constexpr Entry<int32_t(Queue, Memory, Bool, Sizes, Sizes, Sizes region, size_t, size_t, size_t, size_t, const void*, uint32_t, Waits, Event*)>
    kEnqueueWriteBufferRect{87};
inline constexpr Entry<int32_t(Queue, Memory, Memory, Sizes, Sizes, Sizes region, size_t, size_t, size_t, size_t, uint32_t, Waits, Event*)>
    kEnqueueCopyBufferRect{88};
inline constexpr Entry<int32_t(Queue, Memory, const void*, size_t, size_t, size_t bytes, uint32_t, Waits, Event*)> kEnqueueFillBuffer{102};
inline constexpr Entry<int32_t(Queue, Memory, const void*, Sizes, Sizes region, uint32_t, Waits, Event*)> kEnqueueFillImage{103};
inline constexpr Entry<int32_t(Queue, uint32_t count, const Memory*, uint64_t flags, uint32_t, Waits, Event*)> kEnqueueMigrateMemObjects{104};
inline constexpr Entry<Queue(Context, DeviceId, const uint64_t* properties, int32_t* error)> kCreateCommandQueueWithProperties{123};
inline constexpr Entry<int32_t(Queue, Bool, void*, const void*, size_t bytes, uint32_t, Waits, Event*)> kEnqueueSvmMemcpy{129};
inline constexpr Entry<int32_t(Queue, void*, const void*, size_t, size_t bytes, uint32_t, Waits, Event*)> kEnqueueSvmMemFill{130};
inline constexpr Entry<int32_t(Queue, Bool, uint64_t flags, void*, size_t bytes, uint32_t, Waits, Event*)> kEnqueueSvmMap{131};
inline constexpr Entry<int32_t(Queue, void*, uint32_t, Waits, Event*)> kEnqueueSvmUnmap{132};
inline constexpr Entry<int32_t(DeviceId, uint64_t* device, uint64_t* host)> kGetDeviceAndHostTimer{140};

// The functions below us, and their number. Set once, before any other call.
extern const void* const* next_table;
extern uint32_t next_entries;

// The function below us, nullptr if the loader has none.
template <class Function>
Function* next(Entry<Function> entry) noexcept {
  return entry.index < next_entries ? reinterpret_cast<Function*>(const_cast<void*>(next_table[entry.index])) : nullptr;
}

// A property of fixed size of an object; `fallback` if it cannot be read.
template <class Value, class Object>
Value get(Entry<Get<Object>> query, Object object, uint32_t name, Value fallback = {}) noexcept {
  Value value{};
  return next(query)(object, name, sizeof value, &value, nullptr) == kSuccess ? value : fallback;
}

}  // namespace aiflame::opencl
