#include "hooks/opencl/opencl.hpp"

#include "base/sys.hpp"
#include "hooks/opencl/activity.hpp"
#include "hooks/opencl/api.hpp"
#include "hooks/opencl/calls.hpp"
#include "hooks/opencl/programs.hpp"
#include "hooks/opencl/queues.hpp"
#include "hooks/shared/caller.hpp"
#include "spool/control.hpp"

#include <cstring>
#include <tuple>
#include <type_traits>

namespace aiflame::opencl {

const void* const* next_table;
uint32_t next_entries;

namespace {

using schema::CopyKind;
constexpr auto kToHost = CopyKind::DEVICE_TO_HOST, kToDevice = CopyKind::HOST_TO_DEVICE, kOnTheDevice = CopyKind::DEVICE_TO_DEVICE;

bool recording() noexcept { return control::has(schema::Feature::OPENCL) && control::recording(); }

// Enqueues through `call` (which takes where to put the event) and records. The program's event, its count of references and its
// errors are as they would be without us.
template <class Call>
int32_t enqueue(const Registers& from, Queue queue, const Work& work, Event* theirs, Call&& call) noexcept {
  Event event = nullptr;
  Launching launch = launching(from);
  int32_t result = call(&event);
  if (result != kSuccess || !event) return result;
  if (theirs) {
    next(kRetainEvent)(event);
    *theirs = event;
  }
  launched(launch, queue, work, event);
  return result;
}

// The wrapper of an enqueueing function whose first argument is the queue and whose last is the event; Describe returns its work.
template <auto kEntry, class Describe, class... Arguments>
int32_t wrapper(Arguments... arguments) noexcept {
  if (!recording()) return next(kEntry)(arguments...);
  std::tuple<Arguments...> passed{arguments...};
  Event*& event = std::get<sizeof...(Arguments) - 1>(passed);
  return enqueue(program_caller(hooks::caller()), std::get<0>(passed), Describe{}(arguments...), event, [&](Event* ours) {
    event = ours;
    return std::apply(next(kEntry), passed);
  });
}

Work copy(CopyKind kind, uint64_t bytes, bool blocking = false) noexcept { return {.copy = kind, .bytes = bytes, .blocking = blocking}; }

uint64_t volume(Sizes region) noexcept { return region ? uint64_t{region[0]} * region[1] * region[2] : 0; }
uint64_t image_bytes(Memory image, Sizes region) noexcept { return get<size_t>(kGetImageInfo, image, kImageElementSize) * volume(region); }

Work kernel_work(Kernel kernel, uint32_t dimensions, Sizes global, Sizes local) noexcept {
  Work work{.kernel = kernel, .grid = {1, 1, 1}};
  for (uint32_t i = 0; i < 3; i++) {
    if (i < dimensions && global) work.grid[i] = static_cast<uint32_t>(global[i]);
    if (local) work.block[i] = i < dimensions ? static_cast<uint32_t>(local[i]) : 1;
  }
  return work;
}

Work migration(uint32_t count, const Memory* objects, uint64_t flags) noexcept {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count && objects; i++) bytes += get<size_t>(kGetMemObjectInfo, objects[i], kMemorySize);
  return copy(flags & kMigrateToHost ? CopyKind::DEVICE_TO_HOST : CopyKind::HOST_TO_DEVICE, bytes);
}

void* map_buffer(Queue queue, Memory buffer, Bool blocking, uint64_t flags, size_t offset, size_t bytes, uint32_t count, Waits waits, Event* event,
                 int32_t* error) noexcept {
  auto real = next(kEnqueueMapBuffer);
  if (!recording()) return real(queue, buffer, blocking, flags, offset, bytes, count, waits, event, error);
  void* mapped = nullptr;
  int32_t result = enqueue(program_caller(hooks::caller()), queue, copy(CopyKind::MAP, bytes, blocking), event, [&](Event* ours) {
    int32_t told = kSuccess;
    mapped = real(queue, buffer, blocking, flags, offset, bytes, count, waits, ours, &told);
    return told;
  });
  if (error) *error = result;
  return mapped;
}

void* map_image(Queue queue, Memory image, Bool blocking, uint64_t flags, Sizes origin, Sizes region, size_t* row, size_t* slice, uint32_t count,
                Waits waits, Event* event, int32_t* error) noexcept {
  auto real = next(kEnqueueMapImage);
  if (!recording()) return real(queue, image, blocking, flags, origin, region, row, slice, count, waits, event, error);
  void* mapped = nullptr;
  int32_t result =
      enqueue(program_caller(hooks::caller()), queue, copy(CopyKind::MAP, image_bytes(image, region), blocking), event, [&](Event* ours) {
        int32_t told = kSuccess;
        mapped = real(queue, image, blocking, flags, origin, region, row, slice, count, waits, ours, &told);
        return told;
      });
  if (error) *error = result;
  return mapped;
}

int32_t finish(Queue queue) noexcept {
  int32_t result = next(kFinish)(queue);
  collect(queue);
  return result;
}

int32_t wait_for_events(uint32_t count, Waits events) noexcept {
  int32_t result = next(kWaitForEvents)(count, events);
  collect(nullptr);
  return result;
}

// Our functions, over a copy of the loader's table.
struct Table {
  const void** entries;
  uint32_t count;

  template <class Function>
  void put(Entry<Function> entry, std::type_identity_t<Function>* ours) const noexcept {
    if (next(entry)) entries[entry.index] = reinterpret_cast<const void*>(ours);
  }

  template <auto kEntry, class Describe>
  void wrap(Describe) const noexcept {
    wrap_as<kEntry, Describe>(kEntry);
  }

  template <auto kEntry, class Describe, class... Arguments>
  void wrap_as(Entry<int32_t(Arguments...)> entry) const noexcept {
    put(entry, static_cast<int32_t (*)(Arguments...)>(wrapper<kEntry, Describe, Arguments...>));
  }
};

void fill(const Table& table) noexcept {
  table.wrap<kEnqueueNDRangeKernel>([](Queue, Kernel kernel, uint32_t dimensions, Sizes, Sizes global, Sizes local, auto...) {
    return kernel_work(kernel, dimensions, global, local);
  });
  table.wrap<kEnqueueTask>([](Queue, Kernel kernel, auto...) { return kernel_work(kernel, 0, nullptr, nullptr); });
  table.wrap<kEnqueueReadBuffer>([](Queue, Memory, Bool blocking, size_t, size_t bytes, auto...) { return copy(kToHost, bytes, blocking); });
  table.wrap<kEnqueueWriteBuffer>([](Queue, Memory, Bool blocking, size_t, size_t bytes, auto...) { return copy(kToDevice, bytes, blocking); });
  table.wrap<kEnqueueCopyBuffer>([](Queue, Memory, Memory, size_t, size_t, size_t bytes, auto...) { return copy(kOnTheDevice, bytes); });
  table.wrap<kEnqueueReadBufferRect>(
      [](Queue, Memory, Bool blocking, Sizes, Sizes, Sizes region, auto...) { return copy(kToHost, volume(region), blocking); });
  table.wrap<kEnqueueWriteBufferRect>(
      [](Queue, Memory, Bool blocking, Sizes, Sizes, Sizes region, auto...) { return copy(kToDevice, volume(region), blocking); });
  table.wrap<kEnqueueCopyBufferRect>([](Queue, Memory, Memory, Sizes, Sizes, Sizes region, auto...) { return copy(kOnTheDevice, volume(region)); });
  table.wrap<kEnqueueReadImage>(
      [](Queue, Memory image, Bool blocking, Sizes, Sizes region, auto...) { return copy(kToHost, image_bytes(image, region), blocking); });
  table.wrap<kEnqueueWriteImage>(
      [](Queue, Memory image, Bool blocking, Sizes, Sizes region, auto...) { return copy(kToDevice, image_bytes(image, region), blocking); });
  table.wrap<kEnqueueCopyImage>(
      [](Queue, Memory image, Memory, Sizes, Sizes, Sizes region, auto...) { return copy(kOnTheDevice, image_bytes(image, region)); });
  table.wrap<kEnqueueCopyImageToBuffer>(
      [](Queue, Memory image, Memory, Sizes, Sizes region, auto...) { return copy(kOnTheDevice, image_bytes(image, region)); });
  table.wrap<kEnqueueCopyBufferToImage>(
      [](Queue, Memory, Memory image, size_t, Sizes, Sizes region, auto...) { return copy(kOnTheDevice, image_bytes(image, region)); });
  table.wrap<kEnqueueFillBuffer>([](Queue, Memory, const void*, size_t, size_t, size_t bytes, auto...) { return copy(CopyKind::FILL, bytes); });
  table.wrap<kEnqueueFillImage>(
      [](Queue, Memory image, const void*, Sizes, Sizes region, auto...) { return copy(CopyKind::FILL, image_bytes(image, region)); });
  table.wrap<kEnqueueMigrateMemObjects>(
      [](Queue, uint32_t count, const Memory* objects, uint64_t flags, auto...) { return migration(count, objects, flags); });
  table.wrap<kEnqueueUnmapMemObject>([](auto...) { return copy(CopyKind::MAP, 0); });
  table.wrap<kEnqueueSvmMemcpy>([](Queue, Bool blocking, void*, const void*, size_t bytes, auto...) { return copy(kOnTheDevice, bytes, blocking); });
  table.wrap<kEnqueueSvmMemFill>([](Queue, void*, const void*, size_t, size_t bytes, auto...) { return copy(CopyKind::FILL, bytes); });
  table.wrap<kEnqueueSvmMap>([](Queue, Bool blocking, uint64_t, void*, size_t bytes, auto...) { return copy(CopyKind::MAP, bytes, blocking); });
  table.wrap<kEnqueueSvmUnmap>([](auto...) { return copy(CopyKind::MAP, 0); });
  table.put(kEnqueueMapBuffer, map_buffer);
  table.put(kEnqueueMapImage, map_image);
  table.put(kFinish, finish);
  table.put(kWaitForEvents, wait_for_events);
  table.put(kCreateKernel, create_kernel);
  table.put(kCreateKernelsInProgram, create_kernels);
  table.put(kBuildProgram, build_program);
  table.put(kReleaseProgram, release_program);
  table.put(kCreateCommandQueue, create_queue);
  table.put(kCreateCommandQueueWithProperties, create_queue_with_properties);
  table.put(kReleaseCommandQueue, release_queue);
  table.put(kGetCommandQueueInfo, get_queue_info);
  table.put(kGetEventProfilingInfo, get_event_profiling_info);
}

int32_t answer(const void* value, size_t bytes, size_t room, void* out, size_t* size) noexcept {
  if (out && room < bytes) return kInvalidValue;
  if (out) memcpy(out, value, bytes);
  if (size) *size = bytes;
  return kSuccess;
}

}  // namespace

}  // namespace aiflame::opencl

using namespace aiflame;

extern "C" __attribute__((visibility("default"))) int32_t clGetLayerInfo(uint32_t name, size_t room, void* value, size_t* size) noexcept {
  if (name == opencl::kLayerApiVersion) return opencl::answer(&opencl::kLayerApiVersion100, sizeof(uint32_t), room, value, size);
  if (name == opencl::kLayerName) return opencl::answer("aiflame", sizeof "aiflame", room, value, size);
  return opencl::kInvalidValue;
}

// Called once a process. Functions that we do not know stay as they were, including those that a newer loader has added at the end.
extern "C" __attribute__((visibility("default"))) int32_t clInitLayer(uint32_t count, const void* const* target, uint32_t* our_count,
                                                                      const void* const** ours) noexcept {
  if (!target || !our_count || !ours) return opencl::kInvalidValue;
  auto** entries = static_cast<const void**>(sys::map_memory(count * sizeof(void*)));
  if (!entries) return opencl::kInvalidValue;
  memcpy(entries, target, count * sizeof(void*));
  opencl::next_table = target;
  opencl::next_entries = count;
  if (control::has(schema::Feature::OPENCL)) opencl::fill({entries, count});
  if (control::has(schema::Feature::TRACE_OPENCL)) opencl::trace_calls(entries, count);
  *ours = entries;
  *our_count = count;
  return opencl::kSuccess;
}
