// The calls of Level Zero about which more is done than to record them.
#include "hooks/stand_in/level_zero.hpp"

#include "base/clock.hpp"
#include "hooks/stand_in/level_zero_activity.hpp"
#include "hooks/stand_in/level_zero_graphs.hpp"
#include "hooks/stand_in/level_zero_handles.hpp"
#include "hooks/stand_in/level_zero_modules.hpp"
#include "hooks/stand_in/watched.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <atomic>

namespace aiflame::level_zero {

namespace {

using schema::CopyKind;
using stand_in::Call;
using stand_in::ZeWatch;

uint32_t code(uint64_t result) noexcept { return static_cast<uint32_t>(result); }

template <class Type>
Type* pointer(uint64_t word) noexcept {
  return reinterpret_cast<Type*>(word);
}

// Queues of all contexts and devices.
uint32_t next_stream() noexcept {
  static std::atomic<uint32_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// zeEventPoolCreate(context, description, devices, …, &pool): with time stamps that the host may read, but for pools that processes share.
uint64_t create_pool(Call& call) {
  auto* asked = pointer<const EventPoolDescription>(call.words[1]);
  if (!asked || asked->flags & kIpc || !control::recording()) return call.go();
  EventPoolDescription description = *asked;
  description.flags |= kHostVisible | (description.flags & kMappedTimestamps ? 0 : kTimestamps);
  call.words[1] = reinterpret_cast<uint64_t>(&description);
  uint64_t result = call.go();
  bool timestamps = code(result) == kSuccess;
  call.words[1] = reinterpret_cast<uint64_t>(asked);
  if (!timestamps) result = call.go();
  if (code(result) != kSuccess) return result;
  Guard guard;
  if (Object* pool = add(Kind::POOL, *pointer<Handle>(call.words[4]))) {
    pool->flags = asked->flags;
    pool->timestamps = timestamps;
  }
  return result;
}

// zeEventPoolGetFlags(pool, &flags): the flags that the program has set.
uint64_t pool_flags(Call& call) {
  uint64_t result = call.go();
  Guard guard;
  Object* pool = find(Kind::POOL, call.words[0]);
  if (pool && code(result) == kSuccess && call.words[1]) *pointer<uint32_t>(call.words[1]) = pool->flags;
  return result;
}

// zeEventCreate(pool, description, &event)
uint64_t create_event(Call& call) {
  uint64_t result = call.go();
  if (code(result) != kSuccess || !control::recording()) return result;
  Guard guard;
  Object* pool = find(Kind::POOL, call.words[0]);
  if (!pool || !pool->timestamps) return result;
  if (Object* event = add(Kind::EVENT, *pointer<Handle>(call.words[2]))) event->timestamps = true;
  return result;
}

// zeEventCounterBasedCreate(context, device, description, &event), and zexCounterBasedEventCreate2, whose description is laid out the same
uint64_t create_counting_event(Call& call) {
  auto* asked = pointer<const CountingEventDescription>(call.words[2]);
  if (!asked || asked->flags & (kCountingIpc | kCountingHostTimestamps) || !control::recording()) return call.go();
  CountingEventDescription description = *asked;
  description.flags |= kCountingHostVisible | kCountingTimestamps;
  call.words[2] = reinterpret_cast<uint64_t>(&description);
  uint64_t result = call.go();
  bool timestamps = code(result) == kSuccess;
  call.words[2] = reinterpret_cast<uint64_t>(asked);
  if (!timestamps) return call.go();
  Guard guard;
  if (Object* event = add(Kind::EVENT, *pointer<Handle>(call.words[3]))) {
    event->timestamps = true;
    event->counts = !(asked->flags & kCountingTimestamps);
  }
  return result;
}

uint64_t destroy_event(const Api& api, Call& call) {
  Guard guard;
  if (Object* event = find(Kind::EVENT, call.words[0])) {
    finish_event(api, *event);
    remove(*event);
  }
  return call.go();
}

uint64_t reset_event(const Api& api, Call& call) {
  {
    Guard guard;
    if (Object* event = find(Kind::EVENT, call.words[0])) finish_event(api, *event);
  }
  return call.go();
}

// zeCommandListCreate, zeCommandListCreateImmediate, zeCommandQueueCreate(context, device, description, &made)
uint64_t create(const Api& api, Call& call, Kind kind, bool queue) {
  uint64_t result = call.go();
  if (code(result) != kSuccess || !control::recording()) return result;
  auto* description = queue ? pointer<const QueueDescription>(call.words[2]) : nullptr;
  Guard guard;
  Object* made = add(kind, *pointer<Handle>(call.words[3]));
  if (!made) return result;
  made->context = call.words[0];
  made->device = device(api, call.words[1]);
  if (made->device) write_address(api, *made->device);
  made->immediate = queue && kind == Kind::LIST;
  made->stream = queue ? next_stream() : 0;
  made->synchronous = description && description->mode == kSynchronous;
  return result;
}

uint64_t forget(const Api& api, Call& call, Kind kind, bool gone) {
  if (in_flight()) collect(api, Effort::ALL);
  {
    Guard guard;
    if (Object* object = find(kind, call.words[0])) {
      if (kind == Kind::LIST) forget_commands(api, object->first, object->last);
      object->executed = false;
      if (gone) remove(*object);
    }
  }
  return call.go();
}

uint64_t destroy_context(const Api& api, Call& call) {
  if (in_flight()) collect(api, Effort::ALL);
  {
    Guard guard;
    forget_context(api, call.words[0]);
  }
  return call.go();
}

// zeModuleCreate(context, device, description, &module, …)
uint64_t create_module(const Api& api, Call& call) {
  uint64_t result = call.go();
  if (code(result) == kSuccess) module_made(api, call.words[1], *pointer<Handle>(call.words[3]), now_ns());
  return result;
}

// zeModuleDynamicLink(count, modules, …)
uint64_t link_modules(const Api& api, Call& call) {
  uint64_t result = call.go(), time_ns = now_ns();
  auto* modules = pointer<const Handle>(call.words[1]);
  for (uint32_t at = 0; code(result) == kSuccess && modules && at < static_cast<uint32_t>(call.words[0]); at++)
    module_linked(api, modules[at], time_ns);
  return result;
}

uint64_t destroy_module(Call& call) {
  module_goes(call.words[0]);
  return call.go();
}

// zeDriverGetExtensionFunctionAddress(driver, name, &function)
uint64_t give_function(Call& call) {
  uint64_t result = call.go();
  auto* name = pointer<const char>(call.words[1]);
  auto** function = pointer<void*>(call.words[2]);
  if (code(result) == kSuccess && name && function) *function = stand_in::instead_of_extension(*function, name);
  return result;
}

// zeKernelSetGroupSize(kernel, x, y, z)
uint64_t group_size(Call& call) {
  uint64_t result = call.go();
  if (code(result) != kSuccess) return result;
  Guard guard;
  Object* kernel = find(Kind::KERNEL, call.words[0]);
  if (!kernel) kernel = add(Kind::KERNEL, call.words[0]);
  for (size_t at = 0; kernel && at < 3; at++) kernel->group[at] = static_cast<uint32_t>(call.words[1 + at]);
  return result;
}

uint64_t append(const Api& api, Call& call, size_t event_at, const Work& work) {
  Appending appending(api, call.words[0], call.words[event_at], call.frame.caller());
  call.words[event_at] = appending.event();
  uint64_t result = call.go();
  appending.done(code(result) == kSuccess, work);
  return result;
}

Work kernel_work(Handle kernel, const GroupCount* groups) noexcept {
  Work work{.kernel = kernel};
  if (groups) work.grid[0] = groups->x, work.grid[1] = groups->y, work.grid[2] = groups->z;
  Guard guard;
  Object* known = find(Kind::KERNEL, kernel);
  for (size_t at = 0; known && at < 3; at++) work.block[at] = known->group[at];
  return work;
}

// zeCommandListAppendLaunchKernelWithArguments(list, kernel, groups, sizes, …): both are three numbers in two words.
Work kernel_work_by_value(const stand_in::Words& words) noexcept {
  auto low = [&](size_t at) { return static_cast<uint32_t>(words[at]); };
  auto high = [&](size_t at) { return static_cast<uint32_t>(words[at] >> 32); };
  return Work{.kernel = words[1], .grid = {low(2), high(2), low(3)}, .block = {low(4), high(4), low(5)}};
}

Handle context_of(Handle list) noexcept {
  Guard guard;
  Object* known = find(Kind::LIST, list);
  return known ? known->context : 0;
}

struct Place {
  bool on_device;
  Handle device;
};
Place place_of(const Api& api, Handle context, uint64_t memory) noexcept {
  MemoryProperties properties{};
  properties.type = kMemoryProperties;
  Handle device = 0;
  if (api.zeMemGetAllocProperties(context, pointer<void>(memory), &properties, &device) != kSuccess) return {false, 0};
  return {properties.kind == DEVICE || properties.kind == SHARED, properties.kind == DEVICE ? device : 0};
}

Work copy_work(const Api& api, Handle list, uint64_t to, uint64_t from, uint64_t bytes, Handle other_context = 0) noexcept {
  Handle context = control::recording() ? context_of(list) : 0;
  if (!context) return {};
  Place target = place_of(api, context, to), source = place_of(api, other_context ? other_context : context, from);
  CopyKind kind = CopyKind::DEVICE_TO_DEVICE;
  if (target.on_device != source.on_device) kind = target.on_device ? CopyKind::HOST_TO_DEVICE : CopyKind::DEVICE_TO_HOST;
  if (target.device && source.device && target.device != source.device) kind = CopyKind::PEER;
  return Work{.copy = kind, .bytes = bytes};
}

Work fill_work(uint64_t bytes) noexcept { return Work{.copy = CopyKind::FILL, .bytes = bytes}; }

uint64_t volume(const CopyRegion* region) noexcept {
  auto of = [](uint32_t size) { return uint64_t{size ? size : 1}; };
  return region ? of(region->width) * of(region->height) * of(region->depth) : 0;
}

uint64_t execute(const Api& api, Call& call, Kind kind) {
  Caller caller = caller_of(call.frame.caller());
  auto executing = [&] {
    Guard guard;
    return Executing(api, find(kind, call.words[0]), static_cast<uint32_t>(call.words[1]), pointer<const Handle>(call.words[2]), caller);
  }();
  uint64_t result = call.go();
  executing.done(code(result) == kSuccess);
  return result;
}

uint64_t wait(const Api& api, Call& call, Effort effort) {
  uint64_t result = call.go();
  if (code(result) == kSuccess && in_flight()) collect(api, effort);
  return result;
}

// A wait after which all is done that a queue or a list, or any of a device, has executed.
uint64_t wait_for_all(const Api& api, Call& call, Kind kind) {
  uint64_t result = call.go();
  if (code(result) != kSuccess || !in_flight()) return result;
  {
    Guard guard;
    Object* object = kind == Kind::GONE ? nullptr : find(kind, call.words[0]);
    if (object) all_done(object->stream);
    if (kind == Kind::GONE) all_done_on(call.words[0]);
  }
  collect(api, Effort::ALL);
  return result;
}

uint64_t watched(const Api& api, Call& call) {
  const auto& words = call.words;
  auto region = [&] { return volume(pointer<const CopyRegion>(words[2])); };
  switch (static_cast<ZeWatch>(call.fact.watch)) {
    case ZeWatch::GIVES_FUNCTION:
      return give_function(call);
    case ZeWatch::CREATE_POOL:
      return create_pool(call);
    case ZeWatch::POOL_FLAGS:
      return pool_flags(call);
    case ZeWatch::DESTROY_POOL:
      return forget(api, call, Kind::POOL, true);
    case ZeWatch::CREATE_EVENT:
      return create_event(call);
    case ZeWatch::CREATE_COUNTING_EVENT:
      return create_counting_event(call);
    case ZeWatch::DESTROY_EVENT:
      return destroy_event(api, call);
    case ZeWatch::RESET_EVENT:
      return reset_event(api, call);
    case ZeWatch::CREATE_LIST:
      return create(api, call, Kind::LIST, false);
    case ZeWatch::CREATE_IMMEDIATE:
      return create(api, call, Kind::LIST, true);
    case ZeWatch::RESET_LIST:
      return forget(api, call, Kind::LIST, false);
    case ZeWatch::DESTROY_LIST:
      return forget(api, call, Kind::LIST, true);
    case ZeWatch::CREATE_QUEUE:
      return create(api, call, Kind::QUEUE, true);
    case ZeWatch::DESTROY_QUEUE:
      return forget(api, call, Kind::QUEUE, true);
    case ZeWatch::DESTROY_CONTEXT:
      return destroy_context(api, call);
    case ZeWatch::CREATE_MODULE:
      return create_module(api, call);
    case ZeWatch::LINK_MODULES:
      return link_modules(api, call);
    case ZeWatch::DESTROY_MODULE:
      return destroy_module(call);
    case ZeWatch::GROUP_SIZE:
      return group_size(call);
    case ZeWatch::DESTROY_KERNEL:
      return forget(api, call, Kind::KERNEL, true);
    case ZeWatch::LAUNCH:
      return append(api, call, 3, kernel_work(words[1], pointer<const GroupCount>(words[2])));
    case ZeWatch::LAUNCH_INDIRECT:
      return append(api, call, 3, kernel_work(words[1], nullptr));
    case ZeWatch::LAUNCH_WITH_PARAMETERS:
      return append(api, call, 4, kernel_work(words[1], pointer<const GroupCount>(words[2])));
    case ZeWatch::LAUNCH_WITH_ARGUMENTS:
      return append(api, call, 8, kernel_work_by_value(words));
    case ZeWatch::COPY:
      return append(api, call, 4, copy_work(api, words[0], words[1], words[2], words[3]));
    case ZeWatch::COPY_WITH_PARAMETERS:
      return append(api, call, 5, copy_work(api, words[0], words[1], words[2], words[3]));
    case ZeWatch::COPY_REGION:
      return append(api, call, 9, copy_work(api, words[0], words[1], words[5], region()));
    case ZeWatch::COPY_FROM_CONTEXT:
      return append(api, call, 5, copy_work(api, words[0], words[1], words[3], words[4], words[2]));
    case ZeWatch::FILL:
      return append(api, call, 5, fill_work(words[4]));
    case ZeWatch::FILL_WITH_PARAMETERS:
      return append(api, call, 6, fill_work(words[4]));
    case ZeWatch::EXECUTE:
      return execute(api, call, Kind::QUEUE);
    case ZeWatch::APPEND_LISTS:
    case ZeWatch::APPEND_LISTS_WITH_PARAMETERS:
      return execute(api, call, Kind::LIST);
    case ZeWatch::WAIT:
      return wait(api, call, Effort::ALL);
    case ZeWatch::WAIT_QUEUE:
      return wait_for_all(api, call, Kind::QUEUE);
    case ZeWatch::WAIT_LIST:
      return wait_for_all(api, call, Kind::LIST);
    case ZeWatch::WAIT_DEVICE:
      return wait_for_all(api, call, Kind::GONE);
    case ZeWatch::POLL:
      return wait(api, call, Effort::SOME);
    default:
      return graph_call(api, call);
  }
}

}  // namespace

}  // namespace aiflame::level_zero

uint64_t aiflame::stand_in::watch_level_zero(Call& call) {
  const level_zero::Api* api = level_zero::api(level_zero_loader(call.library));
  return api ? level_zero::watched(*api, call) : call.go();
}
