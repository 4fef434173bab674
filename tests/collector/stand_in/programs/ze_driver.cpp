// A driver of Level Zero for tests, beneath the stock loader (ZE_ENABLE_ALT_DRIVERS). Its device is a thread: a kernel named sleep_N sleeps N ms. It
// ends the program at a call that a real driver need not bear. When it is unloaded, it writes the times of all commands to ZE_DRIVER_LOG.
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>
#include <level_zero/zet_ddi.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "ze_device.hpp"
#include "ze_extensions.hpp"
#include "ze_modules.hpp"

using namespace sleeper;

namespace {

constexpr ze_structure_type_t kInCyclesASecond = static_cast<ze_structure_type_t>(0x20006);

ze_result_t append(ze_command_list_handle_t handle, Command command) {
  std::unique_lock lock(mutex);
  List& list = the<List>(handle);
  if (list.closed) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (!list.immediate) return list.commands.push_back(command), ZE_RESULT_SUCCESS;
  expect(!command.signals || !command.signals->counts || list.in_order, "an event counts the commands of a list that is not in order");
  submit(command);
  if (list.synchronous) drain(lock);
  return ZE_RESULT_SUCCESS;
}
Event* event_of(ze_event_handle_t handle) {
  std::lock_guard lock(mutex);
  return handle ? &the<Event>(handle) : nullptr;
}

// Functions, in the loader's tables below.

ze_result_t init(ze_init_flags_t) {
  static std::once_flag once;
  std::call_once(once, [] {
    living.insert({&the_driver, &the_device, &second_device});
    start_device();
  });
  return ZE_RESULT_SUCCESS;
}
ze_result_t driver_get(uint32_t* count, ze_driver_handle_t* drivers) {
  if (*count && drivers) *drivers = reinterpret_cast<ze_driver_handle_t>(static_cast<Thing*>(&the_driver));
  *count = 1;
  return ZE_RESULT_SUCCESS;
}
ze_result_t device_get(ze_driver_handle_t, uint32_t* count, ze_device_handle_t* devices) {
  Thing* const all[] = {&the_device, &second_device};
  for (uint32_t at = 0; at < *count && at < 2 && devices; at++) devices[at] = reinterpret_cast<ze_device_handle_t>(all[at]);
  if (!*count || *count > 2) *count = 2;
  return ZE_RESULT_SUCCESS;
}
ze_result_t device_properties(ze_device_handle_t, ze_device_properties_t* properties) {
  bool newer = properties->stype == kInCyclesASecond;
  if (newer && getenv("ZE_DRIVER_OLD")) return ZE_RESULT_ERROR_INVALID_ENUMERATION;
  expect(newer || properties->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES, "properties of an unknown type");
  properties->type = ZE_DEVICE_TYPE_GPU;
  properties->timerResolution = newer ? kHertz : 1'000'000'000 / kHertz;
  properties->timestampValidBits = 64;
  properties->kernelTimestampValidBits = 32;
  strcpy(properties->name, "Sleeper 1");
  return ZE_RESULT_SUCCESS;
}
ze_result_t pci_properties(ze_device_handle_t device, ze_pci_ext_properties_t* properties) {
  std::lock_guard lock(mutex);
  expect(properties->stype == ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES && !properties->pNext, "properties of an unknown type");
  properties->address = {0, &the<Device>(device) == &second_device ? 0xa4u : 0x3u, 0x1d, 0};
  return ZE_RESULT_SUCCESS;
}
ze_result_t global_timestamps(ze_device_handle_t, uint64_t* host, uint64_t* device) {
  *host = now_ns();
  *device = cycles(*host);
  return ZE_RESULT_SUCCESS;
}
ze_result_t context_create(ze_driver_handle_t, const ze_context_desc_t*, ze_context_handle_t* context) {
  std::lock_guard lock(mutex);
  return give(context, new Context);
}
ze_result_t context_destroy(ze_context_handle_t handle) {
  {
    std::lock_guard lock(mutex);
    for (Thing* thing : living)
      if (auto* pool = dynamic_cast<Pool*>(thing)) expect(pool->context != &the<Context>(handle), "a context ends before its pools of events");
  }
  return destroy<Context>(handle);
}
ze_result_t queue_create(ze_context_handle_t, ze_device_handle_t, const ze_command_queue_desc_t* desc, ze_command_queue_handle_t* queue) {
  std::lock_guard lock(mutex);
  auto* made = new Queue;
  made->synchronous = desc->mode == ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS;
  return give(queue, made);
}
ze_result_t queue_execute(ze_command_queue_handle_t handle, uint32_t count, ze_command_list_handle_t* lists, ze_fence_handle_t) {
  std::unique_lock lock(mutex);
  Queue& queue = the<Queue>(handle);
  for (uint32_t at = 0; at < count; at++) {
    List& list = the<List>(lists[at]);
    if (!list.closed) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    for (Command& command : list.commands) {
      submit(command);
      command.repeats = true;
    }
  }
  if (queue.synchronous) drain(lock);
  return ZE_RESULT_SUCCESS;
}
ze_result_t synchronize(void*, uint64_t timeout) {
  std::unique_lock lock(mutex);
  if (timeout == 0) return is_idle() ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY;
  drain(lock);
  return ZE_RESULT_SUCCESS;
}
ze_result_t list_create(ze_context_handle_t, ze_device_handle_t, const ze_command_list_desc_t*, ze_command_list_handle_t* list) {
  std::lock_guard lock(mutex);
  return give(list, new List);
}
ze_result_t list_create_immediate(ze_context_handle_t, ze_device_handle_t, const ze_command_queue_desc_t* desc, ze_command_list_handle_t* list) {
  std::lock_guard lock(mutex);
  auto* made = new List;
  made->immediate = true;
  made->in_order = desc->flags & 2;  // ZE_COMMAND_QUEUE_FLAG_IN_ORDER, of later headers
  made->synchronous = desc->mode == ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS;
  return give(list, made);
}
ze_result_t list_close(ze_command_list_handle_t list) {
  std::lock_guard lock(mutex);
  the<List>(list).closed = true;
  return ZE_RESULT_SUCCESS;
}
ze_result_t list_reset(ze_command_list_handle_t list) {
  std::lock_guard lock(mutex);
  the<List>(list).closed = false;
  the<List>(list).commands.clear();
  return ZE_RESULT_SUCCESS;
}
ze_result_t append_kernel(ze_command_list_handle_t list, ze_kernel_handle_t handle, const ze_group_count_t* groups, ze_event_handle_t event, uint32_t,
                          ze_event_handle_t*) {
  expect(groups && groups->groupCountX, "no groups");
  Event* signals = event_of(event);
  std::string name;
  {
    std::lock_guard lock(mutex);
    name = the<Kernel>(handle).name;
  }
  return append(list, {name, atol(name.c_str() + strlen("sleep_")), signals, nullptr});
}
ze_result_t append_copy(ze_command_list_handle_t list, void* to, const void* from, size_t bytes, ze_event_handle_t event, uint32_t,
                        ze_event_handle_t*) {
  memcpy(to, from, bytes);
  return append(list, {"[copy]", 5, event_of(event), nullptr});
}
ze_result_t append_fill(ze_command_list_handle_t list, void* to, const void* pattern, size_t, size_t bytes, ze_event_handle_t event, uint32_t,
                        ze_event_handle_t*) {
  memset(to, *static_cast<const char*>(pattern), bytes);
  return append(list, {"[fill]", 5, event_of(event), nullptr});
}
ze_result_t append_barrier(ze_command_list_handle_t list, ze_event_handle_t event, uint32_t, ze_event_handle_t*) {
  return append(list, {"", 0, event_of(event), nullptr});
}
ze_result_t append_event_reset(ze_command_list_handle_t list, ze_event_handle_t event) { return append(list, {"", 0, nullptr, event_of(event)}); }
ze_result_t pool_create(ze_context_handle_t context, const ze_event_pool_desc_t* desc, uint32_t, ze_device_handle_t*, ze_event_pool_handle_t* pool) {
  std::lock_guard lock(mutex);
  expect(desc->stype == ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, "a pool's description of an unknown type");
  if (getenv("ZE_DRIVER_NO_TIMESTAMPS") && desc->flags & ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP) return ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION;
  auto* made = new Pool;
  made->context = &the<Context>(context);
  made->flags = desc->flags;
  made->count = desc->count;
  return give(pool, made);
}
ze_result_t pool_destroy(ze_event_pool_handle_t handle) {
  {
    std::lock_guard lock(mutex);
    expect(the<Pool>(handle).taken.empty(), "a pool ends before its events");
  }
  return destroy<Pool>(handle);
}
ze_result_t event_create(ze_event_pool_handle_t handle, const ze_event_desc_t* desc, ze_event_handle_t* event) {
  std::lock_guard lock(mutex);
  Pool& pool = the<Pool>(handle);
  expect(desc->stype == ZE_STRUCTURE_TYPE_EVENT_DESC, "an event's description of an unknown type");
  expect(desc->index < pool.count && pool.taken.insert(desc->index).second, "an event's place is taken, or none");
  auto* made = new Event;
  made->pool = &pool;
  made->index = desc->index;
  made->host_visible = pool.flags & ZE_EVENT_POOL_FLAG_HOST_VISIBLE;
  made->timestamps = pool.flags & ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP;
  return give(event, made);
}
ze_result_t event_reset(ze_event_handle_t event) {
  std::lock_guard lock(mutex);
  expect(!the<Event>(event).counts, "an event that counts is reset");
  the<Event>(event).signaled = false;
  return ZE_RESULT_SUCCESS;
}
ze_result_t event_signal(ze_event_handle_t event) {
  std::lock_guard lock(mutex);
  the<Event>(event).signaled = true;
  return ZE_RESULT_SUCCESS;
}
ze_result_t event_status(ze_event_handle_t handle) {
  std::lock_guard lock(mutex);
  Event& event = the<Event>(handle);
  expect(event.host_visible, "the host looks at an event that it cannot see");
  return event.signaled ? ZE_RESULT_SUCCESS : ZE_RESULT_NOT_READY;
}
ze_result_t event_synchronize(ze_event_handle_t handle, uint64_t) {
  std::unique_lock lock(mutex);
  Event& event = the<Event>(handle);
  changed.wait(lock, [&] { return event.signaled; });
  return ZE_RESULT_SUCCESS;
}
ze_result_t event_timestamp(ze_event_handle_t handle, ze_kernel_timestamp_result_t* stamps) {
  std::lock_guard lock(mutex);
  Event& event = the<Event>(handle);
  if (!event.timestamps) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (!event.signaled) return ZE_RESULT_NOT_READY;
  *stamps = {{event.begin, event.end}, {0, event.end - event.begin}};
  if (getenv("ZE_DRIVER_EMPTY_TIMESTAMPS")) *stamps = {};
  return ZE_RESULT_SUCCESS;
}
ze_result_t kernel_create(ze_module_handle_t, const ze_kernel_desc_t* desc, ze_kernel_handle_t* kernel) {
  if (strncmp(desc->pKernelName, "sleep_", 6) != 0) return ZE_RESULT_ERROR_INVALID_KERNEL_NAME;
  std::lock_guard lock(mutex);
  auto* made = new Kernel;
  made->name = desc->pKernelName;
  return give(kernel, made);
}
ze_result_t kernel_group_size(ze_kernel_handle_t, uint32_t, uint32_t, uint32_t) { return ZE_RESULT_SUCCESS; }
ze_result_t kernel_name(ze_kernel_handle_t handle, size_t* bytes, char* name) {
  std::lock_guard lock(mutex);
  const std::string& its = the<Kernel>(handle).name;
  if (name && *bytes <= its.size()) return ZE_RESULT_ERROR_INVALID_SIZE;
  if (name) strcpy(name, its.c_str());
  *bytes = its.size() + 1;
  return ZE_RESULT_SUCCESS;
}
std::set<void*> on_device;
ze_result_t allocate_device(ze_context_handle_t, const ze_device_mem_alloc_desc_t*, size_t bytes, size_t, ze_device_handle_t, void** memory) {
  std::lock_guard lock(mutex);
  on_device.insert(*memory = calloc(1, bytes));
  return ZE_RESULT_SUCCESS;
}
ze_result_t free_memory(ze_context_handle_t, void* memory) {
  std::lock_guard lock(mutex);
  on_device.erase(memory);
  free(memory);
  return ZE_RESULT_SUCCESS;
}
ze_result_t memory_properties(ze_context_handle_t, const void* memory, ze_memory_allocation_properties_t* properties, ze_device_handle_t* device) {
  std::lock_guard lock(mutex);
  bool ours = on_device.count(const_cast<void*>(memory));
  properties->type = ours ? ZE_MEMORY_TYPE_DEVICE : ZE_MEMORY_TYPE_UNKNOWN;
  if (device) *device = ours ? reinterpret_cast<ze_device_handle_t>(static_cast<Thing*>(&the_device)) : nullptr;
  return ZE_RESULT_SUCCESS;
}
ze_result_t open_ipc(ze_context_handle_t, ze_device_handle_t, ze_ipc_mem_handle_t handle, ze_ipc_memory_flags_t flags, void** memory) {
  for (int at = 0; at < ZE_MAX_IPC_HANDLE_SIZE; at++) expect(handle.data[at] == at, "a handle passed by value");
  *memory = nullptr;
  return flags == 1 ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

}  // namespace

#define TABLE(function, type, ...)                                                                        \
  extern "C" __attribute__((visibility("default"))) ze_result_t function(ze_api_version_t, type* table) { \
    *table = {};                                                                                          \
    __VA_ARGS__                                                                                           \
    return ZE_RESULT_SUCCESS;                                                                             \
  }
TABLE(zeGetGlobalProcAddrTable, ze_global_dditable_t, { table->pfnInit = init; })
TABLE(zeGetDriverProcAddrTable, ze_driver_dditable_t, {
  table->pfnGet = driver_get;
  table->pfnGetExtensionFunctionAddress = extension_function;
})
TABLE(zeGetDeviceProcAddrTable, ze_device_dditable_t, {
  table->pfnGet = device_get;
  table->pfnGetProperties = device_properties;
  table->pfnPciGetPropertiesExt = pci_properties;
  table->pfnGetGlobalTimestamps = global_timestamps;
})
TABLE(zeGetContextProcAddrTable, ze_context_dditable_t, {
  table->pfnCreate = context_create;
  table->pfnDestroy = context_destroy;
})
TABLE(zeGetCommandQueueProcAddrTable, ze_command_queue_dditable_t, {
  table->pfnCreate = queue_create;
  table->pfnDestroy = [](ze_command_queue_handle_t queue) { return destroy<Queue>(queue); };
  table->pfnExecuteCommandLists = queue_execute;
  table->pfnSynchronize = [](ze_command_queue_handle_t queue, uint64_t timeout) { return synchronize(queue, timeout); };
})
TABLE(zeGetCommandListProcAddrTable, ze_command_list_dditable_t, {
  table->pfnCreate = list_create;
  table->pfnCreateImmediate = list_create_immediate;
  table->pfnDestroy = [](ze_command_list_handle_t list) { return destroy<List>(list); };
  table->pfnClose = list_close;
  table->pfnReset = list_reset;
  table->pfnAppendLaunchKernel = append_kernel;
  table->pfnAppendMemoryCopy = append_copy;
  table->pfnAppendMemoryFill = append_fill;
  table->pfnAppendEventReset = append_event_reset;
  table->pfnAppendBarrier = append_barrier;
})
TABLE(zeGetEventPoolProcAddrTable, ze_event_pool_dditable_t, {
  table->pfnCreate = pool_create;
  table->pfnDestroy = pool_destroy;
})
TABLE(zeGetEventProcAddrTable, ze_event_dditable_t, {
  table->pfnCreate = event_create;
  table->pfnDestroy = [](ze_event_handle_t event) { return destroy<Event>(event); };
  table->pfnHostReset = event_reset;
  table->pfnHostSignal = event_signal;
  table->pfnQueryStatus = event_status;
  table->pfnHostSynchronize = event_synchronize;
  table->pfnQueryKernelTimestamp = event_timestamp;
})
TABLE(zeGetModuleProcAddrTable, ze_module_dditable_t, {
  table->pfnCreate = module_create;
  table->pfnDynamicLink = module_link;
  table->pfnDestroy = [](ze_module_handle_t module) { return destroy<Module>(module); };
})
TABLE(zetGetModuleProcAddrTable, zet_module_dditable_t, { table->pfnGetDebugInfo = module_debug_info; })
TABLE(zeGetKernelProcAddrTable, ze_kernel_dditable_t, {
  table->pfnCreate = kernel_create;
  table->pfnDestroy = [](ze_kernel_handle_t kernel) { return destroy<Kernel>(kernel); };
  table->pfnSetGroupSize = kernel_group_size;
  table->pfnGetName = kernel_name;
})
TABLE(zeGetMemProcAddrTable, ze_mem_dditable_t, {
  table->pfnAllocDevice = allocate_device;
  table->pfnFree = free_memory;
  table->pfnGetAllocProperties = memory_properties;
  table->pfnOpenIpcHandle = open_ipc;
})

// The loader asks for a table of each kind, though it be empty.
#define EMPTY(function)                                                                 \
  __attribute__((visibility("default"))) ze_result_t empty_##function() asm(#function); \
  ze_result_t empty_##function() { return ZE_RESULT_SUCCESS; }
EMPTY(zeGetDeviceExpProcAddrTable)
EMPTY(zeGetEventExpProcAddrTable)
EMPTY(zeGetFabricEdgeExpProcAddrTable)
EMPTY(zeGetFabricVertexExpProcAddrTable)
EMPTY(zeGetFenceProcAddrTable)
EMPTY(zeGetImageProcAddrTable)
EMPTY(zeGetImageExpProcAddrTable)
EMPTY(zeGetKernelExpProcAddrTable)
EMPTY(zeGetModuleBuildLogProcAddrTable)
EMPTY(zeGetPhysicalMemProcAddrTable)
EMPTY(zeGetSamplerProcAddrTable)
EMPTY(zeGetVirtualMemProcAddrTable)
EMPTY(zetGetCommandListProcAddrTable)
EMPTY(zetGetContextProcAddrTable)
EMPTY(zetGetDebugProcAddrTable)
EMPTY(zetGetDeviceProcAddrTable)
EMPTY(zetGetKernelProcAddrTable)
EMPTY(zetGetMetricGroupExpProcAddrTable)
EMPTY(zetGetMetricGroupProcAddrTable)
EMPTY(zetGetMetricProcAddrTable)
EMPTY(zetGetMetricQueryPoolProcAddrTable)
EMPTY(zetGetMetricQueryProcAddrTable)
EMPTY(zetGetMetricStreamerProcAddrTable)
EMPTY(zetGetTracerExpProcAddrTable)
EMPTY(zesGetDeviceProcAddrTable)
EMPTY(zesGetDiagnosticsProcAddrTable)
EMPTY(zesGetDriverProcAddrTable)
EMPTY(zesGetEngineProcAddrTable)
EMPTY(zesGetFabricPortProcAddrTable)
EMPTY(zesGetFanProcAddrTable)
EMPTY(zesGetFirmwareProcAddrTable)
EMPTY(zesGetFrequencyProcAddrTable)
EMPTY(zesGetLedProcAddrTable)
EMPTY(zesGetMemoryProcAddrTable)
EMPTY(zesGetPerformanceFactorProcAddrTable)
EMPTY(zesGetPowerProcAddrTable)
EMPTY(zesGetPsuProcAddrTable)
EMPTY(zesGetRasProcAddrTable)
EMPTY(zesGetSchedulerProcAddrTable)
EMPTY(zesGetStandbyProcAddrTable)
EMPTY(zesGetTemperatureProcAddrTable)
