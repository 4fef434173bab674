#include "hooks/opencl/queues.hpp"

#include "hooks/opencl/activity.hpp"
#include "hooks/opencl/devices.hpp"

#include <cstring>

namespace aiflame::opencl {

namespace {

// Queues that live on the device serve kernels that enqueue kernels; no event of theirs reaches the host.
bool needs_profiling(uint64_t properties) noexcept { return !(properties & (kProfilingEnable | kOnDevice)); }

// Makes a queue with profiling if it can be had, else as asked. `make` takes whether to add it.
template <class Make>
Queue create(DeviceId device, QueueInfo info, bool add, int32_t* error, Make&& make) noexcept {
  int32_t result = kSuccess;
  Queue queue = make(add, &result);
  if (!queue && add) {
    add = false;
    queue = make(add, &result);
  }
  if (error) *error = result;
  info.profiling_is_ours = add;
  if (queue) add_queue(queue, device, info);
  return queue;
}

}  // namespace

Queue create_queue(Context context, DeviceId device, uint64_t properties, int32_t* error) noexcept {
  return create(device, {}, needs_profiling(properties), error, [&](bool add, int32_t* result) {
    return next(kCreateCommandQueue)(context, device, add ? properties | kProfilingEnable : properties, result);
  });
}

Queue create_queue_with_properties(Context context, DeviceId device, const uint64_t* properties, int32_t* error) noexcept {
  QueueInfo info{};
  uint64_t list[kMostProperties + 2], *flags = nullptr;
  size_t words = 0;
  if (properties)
    for (; properties[words] && words + 2 < kMostProperties; words += 2) {
      memcpy(list + words, properties + words, 2 * sizeof *list);
      if (list[words] == kQueueProperties) flags = &list[words + 1];
    }
  bool whole = !properties || !properties[words];
  bool add = whole && needs_profiling(flags ? *flags : 0);
  if (add) {
    info.made_with_list = true;
    info.list_words = properties ? words + 1 : 0;
    if (properties) memcpy(info.list, properties, info.list_words * sizeof *list);
    if (flags)
      *flags |= kProfilingEnable;
    else
      list[words++] = kQueueProperties, list[words++] = kProfilingEnable;
    list[words] = 0;
  }
  return create(device, info, add, error, [&](bool with_ours, int32_t* result) {
    return next(kCreateCommandQueueWithProperties)(context, device, with_ours ? list : properties, result);
  });
}

int32_t release_queue(Queue queue) noexcept {
  if (get<uint32_t>(kGetCommandQueueInfo, queue, kQueueReferenceCount) == 1) {
    collect(queue);
    remove_queue(queue);
  }
  return next(kReleaseCommandQueue)(queue);
}

int32_t get_queue_info(Queue queue, uint32_t name, size_t room, void* value, size_t* size) noexcept {
  const QueueInfo* ours = name == kQueueProperties || name == kQueuePropertiesArray ? find_our_profiling(queue) : nullptr;
  if (ours && name == kQueuePropertiesArray && ours->made_with_list) {
    size_t bytes = ours->list_words * sizeof(uint64_t);
    if (value && room < bytes) return kInvalidValue;
    if (value && bytes) memcpy(value, ours->list, bytes);
    if (size) *size = bytes;
    return kSuccess;
  }
  int32_t result = next(kGetCommandQueueInfo)(queue, name, room, value, size);
  if (ours && name == kQueueProperties && result == kSuccess && value && room >= sizeof(uint64_t)) {
    uint64_t properties;
    memcpy(&properties, value, sizeof properties);
    properties &= ~kProfilingEnable;
    memcpy(value, &properties, sizeof properties);
  }
  return result;
}

int32_t get_event_profiling_info(Event event, uint32_t name, size_t room, void* value, size_t* size) noexcept {
  Queue queue = get<Queue>(kGetEventInfo, event, kEventQueue);
  if (queue && find_our_profiling(queue)) return kProfilingInfoNotAvailable;
  return next(kGetEventProfilingInfo)(event, name, room, value, size);
}

}  // namespace aiflame::opencl
