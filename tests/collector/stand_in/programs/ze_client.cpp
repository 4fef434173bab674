// A program of Level Zero: ze_client SCENE... prints how often it called each function, as JSON.
#include <level_zero/loader/ze_loader.h>
#include <level_zero/ze_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

static std::map<std::string, int> counts;
#define CALL(function, ...) (counts[#function]++, function(__VA_ARGS__))
#define OK(function, ...) expect(CALL(function, __VA_ARGS__) == ZE_RESULT_SUCCESS, #function)

static void expect(bool right, const char* what) {
  if (right) return;
  fprintf(stderr, "not so: %s\n", what);
  abort();
}

static ze_driver_handle_t driver;
static ze_device_handle_t device;
static ze_context_handle_t context;
static ze_module_handle_t module;

static ze_kernel_handle_t kernel(const char* name, uint32_t group) {
  ze_kernel_desc_t desc{ZE_STRUCTURE_TYPE_KERNEL_DESC, nullptr, 0, name};
  ze_kernel_handle_t made;
  OK(zeKernelCreate, module, &desc, &made);
  OK(zeKernelSetGroupSize, made, group, 1, 1);
  return made;
}

static ze_command_queue_desc_t queue_desc(ze_command_queue_mode_t mode) {
  return {ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, nullptr, 0, 0, 0, mode, ZE_COMMAND_QUEUE_PRIORITY_NORMAL};
}

// A list without events that is executed twice, emptied, and executed with something else.
static void lists() {
  auto desc = queue_desc(ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS);
  ze_command_list_desc_t list_desc{ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC, nullptr, 0, 0};
  ze_command_queue_handle_t queue;
  ze_command_list_handle_t list;
  ze_kernel_handle_t twenty = kernel("sleep_20", 16), thirty = kernel("sleep_30", 8);
  ze_group_count_t groups{4, 2, 1};
  ze_device_mem_alloc_desc_t memory_desc{ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, nullptr, 0, 0};
  void* memory;
  char data[64] = "data";
  OK(zeMemAllocDevice, context, &memory_desc, 64, 64, device, &memory);
  OK(zeCommandQueueCreate, context, device, &desc, &queue);
  OK(zeCommandListCreate, context, device, &list_desc, &list);
  OK(zeCommandListAppendLaunchKernel, list, twenty, &groups, nullptr, 0, nullptr);
  OK(zeCommandListAppendMemoryCopy, list, memory, data, 64, nullptr, 0, nullptr);
  expect(CALL(zeCommandQueueExecuteCommandLists, queue, 1, &list, nullptr) == ZE_RESULT_ERROR_INVALID_ARGUMENT, "an open list is not executed");
  OK(zeCommandListClose, list);
  for (int turn = 0; turn < 2; turn++) {
    OK(zeCommandQueueExecuteCommandLists, queue, 1, &list, nullptr);
    OK(zeCommandQueueSynchronize, queue, UINT64_MAX);
  }
  OK(zeCommandListReset, list);
  OK(zeCommandListAppendLaunchKernel, list, thirty, &groups, nullptr, 0, nullptr);
  OK(zeCommandListAppendMemoryCopy, list, data, memory, 32, nullptr, 0, nullptr);
  OK(zeCommandListAppendMemoryFill, list, memory, data, 1, 16, nullptr, 0, nullptr);
  OK(zeCommandListClose, list);
  OK(zeCommandQueueExecuteCommandLists, queue, 1, &list, nullptr);
  OK(zeCommandQueueSynchronize, queue, UINT64_MAX);
  OK(zeCommandListDestroy, list);
  OK(zeCommandQueueDestroy, queue);
  OK(zeMemFree, context, memory);
  OK(zeKernelDestroy, twenty);
  OK(zeKernelDestroy, thirty);
}

// Immediate lists, with an event of its own that has no time stamps by itself, and with none; and one that waits by itself.
static void immediate() {
  auto desc = queue_desc(ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS), waiting = queue_desc(ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
  ze_event_pool_desc_t pool_desc{ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, nullptr, ZE_EVENT_POOL_FLAG_HOST_VISIBLE, 2};
  ze_event_desc_t event_desc{ZE_STRUCTURE_TYPE_EVENT_DESC, nullptr, 1, 0, 0};
  ze_command_list_handle_t list, synchronous;
  ze_event_pool_handle_t pool;
  ze_event_handle_t event;
  ze_kernel_handle_t ten = kernel("sleep_10", 1), forty = kernel("sleep_40", 2);
  ze_group_count_t groups{1, 1, 1};
  OK(zeCommandListCreateImmediate, context, device, &desc, &list);
  OK(zeCommandListCreateImmediate, context, device, &waiting, &synchronous);
  OK(zeEventPoolCreate, context, &pool_desc, 0, nullptr, &pool);
  expect(pool_desc.flags == ZE_EVENT_POOL_FLAG_HOST_VISIBLE, "the program's description stays as it is");
  OK(zeEventCreate, pool, &event_desc, &event);
  for (int turn = 0; turn < 3; turn++) {
    OK(zeCommandListAppendLaunchKernel, list, ten, &groups, event, 0, nullptr);
    if (turn == 0)
      while (CALL(zeEventQueryStatus, event) == ZE_RESULT_NOT_READY) continue;
    else
      OK(zeEventHostSynchronize, event, UINT64_MAX);
    OK(zeEventHostReset, event);
  }
  for (int turn = 0; turn < 2; turn++) OK(zeCommandListAppendLaunchKernel, synchronous, forty, &groups, nullptr, 0, nullptr);
  OK(zeEventDestroy, event);
  OK(zeEventPoolDestroy, pool);
  OK(zeCommandListDestroy, list);
  OK(zeCommandListDestroy, synchronous);
  OK(zeKernelDestroy, ten);
  OK(zeKernelDestroy, forty);
}

// A list with the program's event, which the list itself resets when it is executed again.
static void resets() {
  auto desc = queue_desc(ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS);
  ze_command_list_desc_t list_desc{ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC, nullptr, 0, 0};
  ze_event_pool_desc_t pool_desc{ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, nullptr, ZE_EVENT_POOL_FLAG_HOST_VISIBLE, 1};
  ze_event_desc_t event_desc{ZE_STRUCTURE_TYPE_EVENT_DESC, nullptr, 0, 0, 0};
  ze_command_queue_handle_t queue;
  ze_command_list_handle_t list;
  ze_event_pool_handle_t pool;
  ze_event_handle_t event;
  ze_kernel_handle_t ten = kernel("sleep_10", 1);
  ze_group_count_t groups{1, 1, 1};
  OK(zeCommandQueueCreate, context, device, &desc, &queue);
  OK(zeCommandListCreate, context, device, &list_desc, &list);
  OK(zeEventPoolCreate, context, &pool_desc, 0, nullptr, &pool);
  OK(zeEventCreate, pool, &event_desc, &event);
  OK(zeCommandListAppendEventReset, list, event);
  OK(zeCommandListAppendLaunchKernel, list, ten, &groups, event, 0, nullptr);
  OK(zeCommandListClose, list);
  for (int turn = 0; turn < 3; turn++) OK(zeCommandQueueExecuteCommandLists, queue, 1, &list, nullptr);
  OK(zeCommandQueueSynchronize, queue, UINT64_MAX);
  OK(zeEventDestroy, event);
  OK(zeEventPoolDestroy, pool);
  OK(zeCommandListDestroy, list);
  OK(zeCommandQueueDestroy, queue);
  OK(zeKernelDestroy, ten);
}

// An event that counts is given to one launch after the other, and nobody waits in between.
static void reuses() {
  uint32_t counting[8] = {0x30024, 0, 0, 0, 1 | 4};  // type, next, flags, scopes
  ze_result_t (*zexCounterBasedEventCreate2)(ze_context_handle_t, ze_device_handle_t, const void*, ze_event_handle_t*);
  OK(zeDriverGetExtensionFunctionAddress, driver, "zexCounterBasedEventCreate2", reinterpret_cast<void**>(&zexCounterBasedEventCreate2));
  auto desc = queue_desc(ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS);
  desc.flags = 2;  // ZE_COMMAND_QUEUE_FLAG_IN_ORDER, of later headers
  ze_command_list_handle_t list;
  ze_event_handle_t event;
  ze_kernel_handle_t ten = kernel("sleep_10", 1), twenty = kernel("sleep_20", 1);
  ze_group_count_t groups{1, 1, 1};
  OK(zeCommandListCreateImmediate, context, device, &desc, &list);
  OK(zexCounterBasedEventCreate2, context, device, counting, &event);
  for (int turn = 0; turn < 6; turn++) {
    OK(zeCommandListAppendLaunchKernel, list, turn % 2 ? twenty : ten, &groups, event, 0, nullptr);
    if (turn < 4) continue;
    expect(CALL(zeEventQueryStatus, event) == ZE_RESULT_NOT_READY, "a kernel that was just launched is not done");
    OK(zeEventHostSynchronize, event, UINT64_MAX);
    OK(zeEventQueryStatus, event);
  }
  OK(zeEventDestroy, event);
  OK(zeCommandListDestroy, list);
  OK(zeKernelDestroy, ten);
  OK(zeKernelDestroy, twenty);
}

// Two devices of one name.
static void two_devices() {
  ze_device_handle_t devices[2];
  uint32_t two = 2;
  auto desc = queue_desc(ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
  ze_kernel_handle_t ten = kernel("sleep_10", 1), twenty = kernel("sleep_20", 1);
  ze_group_count_t groups{1, 1, 1};
  OK(zeDeviceGet, driver, &two, devices);
  for (int at = 0; at < 2; at++) {
    ze_command_list_handle_t list;
    OK(zeCommandListCreateImmediate, context, devices[at], &desc, &list);
    OK(zeCommandListAppendLaunchKernel, list, at ? twenty : ten, &groups, nullptr, 0, nullptr);
    OK(zeCommandListDestroy, list);
  }
  OK(zeKernelDestroy, ten);
  OK(zeKernelDestroy, twenty);
}

// As SYCL's runtime works: events that count, made by a function of the driver that is not the loader's; and lists that are appended by another.
static void sycl() {
  struct {
    uint32_t type;
    const void* next;
    uint32_t flags, signal, wait;
  } counting{0x30024, nullptr, 1 | 4, 0, 0};
  ze_result_t (*zexCounterBasedEventCreate2)(ze_context_handle_t, ze_device_handle_t, const void*, ze_event_handle_t*);
  ze_result_t (*append)(ze_command_list_handle_t, uint32_t, ze_command_list_handle_t*, ze_event_handle_t, uint32_t, ze_event_handle_t*);
  OK(zeDriverGetExtensionFunctionAddress, driver, "zexCounterBasedEventCreate2", reinterpret_cast<void**>(&zexCounterBasedEventCreate2));
  OK(zeDriverGetExtensionFunctionAddress, driver, "zeCommandListImmediateAppendCommandListsExp", reinterpret_cast<void**>(&append));
  auto desc = queue_desc(ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS);
  desc.flags = 2;  // ZE_COMMAND_QUEUE_FLAG_IN_ORDER, of later headers
  ze_command_list_desc_t list_desc{ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC, nullptr, 0, 0};
  ze_command_list_handle_t list, recorded;
  ze_event_handle_t event;
  ze_kernel_handle_t ten = kernel("sleep_10", 1), twenty = kernel("sleep_20", 2), thirty = kernel("sleep_30", 4);
  ze_group_count_t groups{1, 1, 1};
  OK(zeCommandListCreateImmediate, context, device, &desc, &list);
  OK(zexCounterBasedEventCreate2, context, device, &counting, &event);
  expect(counting.flags == (1 | 4), "the program's description stays as it is");
  for (ze_kernel_handle_t each : {ten, twenty}) {
    OK(zeCommandListAppendLaunchKernel, list, each, &groups, event, 0, nullptr);
    OK(zeEventHostSynchronize, event, UINT64_MAX);
  }
  OK(zeCommandListAppendLaunchKernel, list, ten, &groups, nullptr, 0, nullptr);
  OK(zeCommandListCreate, context, device, &list_desc, &recorded);
  OK(zeCommandListAppendLaunchKernel, recorded, thirty, &groups, nullptr, 0, nullptr);
  OK(zeCommandListClose, recorded);
  expect((counts["zeCommandListImmediateAppendCommandListsExp"]++, append(list, 1, &recorded, nullptr, 0, nullptr)) == ZE_RESULT_SUCCESS, "lists");
  OK(zeCommandListAppendLaunchKernel, list, twenty, &groups, event, 0, nullptr);
  OK(zeEventHostSynchronize, event, UINT64_MAX);
  OK(zeEventDestroy, event);
  OK(zeCommandListDestroy, list);
  OK(zeCommandListDestroy, recorded);
  for (ze_kernel_handle_t each : {ten, twenty, thirty}) OK(zeKernelDestroy, each);
}

static std::vector<uint8_t> file(const char* name) {
  FILE* opened = fopen((std::string(getenv("ZE_CLIENT_ZEBINS")) + "/" + name).c_str(), "rb");
  expect(opened, name);
  std::vector<uint8_t> bytes(1 << 20);
  bytes.resize(fread(bytes.data(), 1, bytes.size(), opened));
  fclose(opened);
  return bytes;
}

// A list that is executed again before it is done; and once more when it is.
static void overlaps() {
  auto desc = queue_desc(ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS);
  ze_command_list_desc_t list_desc{ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC, nullptr, 0, 0};
  ze_command_queue_handle_t queue;
  ze_command_list_handle_t list;
  ze_kernel_handle_t twenty = kernel("sleep_20", 1);
  ze_group_count_t groups{1, 1, 1};
  OK(zeCommandQueueCreate, context, device, &desc, &queue);
  OK(zeCommandListCreate, context, device, &list_desc, &list);
  OK(zeCommandListAppendLaunchKernel, list, twenty, &groups, nullptr, 0, nullptr);
  OK(zeCommandListClose, list);
  for (int times : {3, 1}) {
    for (int turn = 0; turn < times; turn++) OK(zeCommandQueueExecuteCommandLists, queue, 1, &list, nullptr);
    OK(zeCommandQueueSynchronize, queue, UINT64_MAX);
  }
  OK(zeCommandListDestroy, list);
  OK(zeCommandQueueDestroy, queue);
  OK(zeKernelDestroy, twenty);
}

// Native code, of which a later module gets the place of one that is gone; and links of modules.
static void modules() {
  auto load = [](const char* name) {
    std::vector<uint8_t> bytes = file(name);
    ze_module_desc_t desc{ZE_STRUCTURE_TYPE_MODULE_DESC, nullptr, ZE_MODULE_FORMAT_NATIVE, bytes.size(), bytes.data(), nullptr, nullptr};
    ze_module_handle_t made;
    OK(zeModuleCreate, context, device, &desc, &made, nullptr);
    return made;
  };
  ze_module_handle_t first = load("matmul.lnl.zebin");
  OK(zeModuleDestroy, first);
  ze_module_handle_t both[] = {load("matmul.pvc.zebin"), load("three.ptl.zebin")};
  OK(zeModuleDynamicLink, 2, both, nullptr);
  OK(zeModuleDestroy, both[1]);
}

// Functions that are not on aiflame's list: one of the loader's own, and one of the driver's.
static void newer() {
  size_t versions = 0;
  expect(zelLoaderGetVersions(&versions, nullptr) == ZE_RESULT_SUCCESS && versions > 0, "versions");
  uint64_t (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
  OK(zeDriverGetExtensionFunctionAddress, driver, "zexNewerFunction", reinterpret_cast<void**>(&function));
  expect(function(1, 2, 3, 4, 5, 6, 7, 8) == 36, "a newer function");
  ze_ipc_mem_handle_t handle;
  for (int at = 0; at < ZE_MAX_IPC_HANDLE_SIZE; at++) handle.data[at] = static_cast<char>(at);
  void* memory;
  OK(zeMemOpenIpcHandle, context, device, handle, 1, &memory);
}

int main(int count, char** arguments) {
  uint32_t one = 1;
  const uint8_t code[4] = {3, 2, 35, 7};
  ze_context_desc_t context_desc{ZE_STRUCTURE_TYPE_CONTEXT_DESC, nullptr, 0};
  ze_module_desc_t module_desc{ZE_STRUCTURE_TYPE_MODULE_DESC, nullptr, ZE_MODULE_FORMAT_IL_SPIRV, sizeof code, code, nullptr, nullptr};
  OK(zeInit, 0);
  OK(zeDriverGet, &one, &driver);
  OK(zeDeviceGet, driver, &one, &device);
  OK(zeContextCreate, driver, &context_desc, &context);
  OK(zeModuleCreate, context, device, &module_desc, &module, nullptr);
  const std::map<std::string, void (*)()> scenes{{"lists", lists},      {"immediate", immediate}, {"resets", resets},           {"newer", newer},
                                                 {"modules", modules},  {"sycl", sycl},           {"two_devices", two_devices}, {"reuses", reuses},
                                                 {"overlaps", overlaps}};
  for (int at = 1; at < count; at++) scenes.at(arguments[at])();
  OK(zeModuleDestroy, module);
  OK(zeContextDestroy, context);
  const char* separator = "{";
  for (auto& [name, calls] : counts) printf("%s\"%s\": %d", separator, name.c_str(), calls), separator = ", ";
  printf("}\n");
}
