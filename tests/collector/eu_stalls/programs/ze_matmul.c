// Multiplies matrices on a device of Level Zero: ze_matmul BINARY TIMES [PTI]. first() launches three times as many groups as second() does.
#include "pti_samples.h"

#include <level_zero/ze_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static ze_command_list_handle_t list;
static ze_event_handle_t event;

static void check(const char* call, ze_result_t result) {
  if (result == ZE_RESULT_SUCCESS) return;
  fprintf(stderr, "%s: 0x%x\n", call, (unsigned)result);
  exit(1);
}
#define CHECK(call) check(#call, call)

__attribute__((noinline)) void launch(ze_kernel_handle_t kernel, uint32_t groups) {
  ze_group_count_t count = {groups, 1, 1};
  CHECK(zeCommandListAppendLaunchKernel(list, kernel, &count, event, 0, NULL));
  CHECK(zeEventHostSynchronize(event, UINT64_MAX));
  CHECK(zeEventHostReset(event));
}

__attribute__((noinline)) void first(ze_kernel_handle_t kernel) {
  launch(kernel, 30);
  __asm__ volatile("");
}

__attribute__((noinline)) void second(ze_kernel_handle_t kernel) {
  launch(kernel, 10);
  __asm__ volatile("");
}

static ze_module_handle_t load(ze_context_handle_t context, ze_device_handle_t device, const char* path) {
  FILE* file = fopen(path, "rb");
  static uint8_t code[1 << 20];
  size_t size = file ? fread(code, 1, sizeof code, file) : 0;
  if (file) fclose(file);
  ze_module_desc_t description = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC, .format = ZE_MODULE_FORMAT_NATIVE, .inputSize = size, .pInputModule = code};
  ze_module_handle_t module;
  CHECK(zeModuleCreate(context, device, &description, &module, NULL));
  return module;
}

static void prepare(ze_context_handle_t context, ze_device_handle_t device) {
  ze_event_pool_desc_t pool_description = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE, .count = 1};
  ze_event_pool_handle_t pool;
  CHECK(zeEventPoolCreate(context, &pool_description, 0, NULL, &pool));
  ze_event_desc_t event_description = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC, .signal = ZE_EVENT_SCOPE_FLAG_HOST, .wait = ZE_EVENT_SCOPE_FLAG_HOST};
  CHECK(zeEventCreate(pool, &event_description, &event));
  ze_command_queue_desc_t queue = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
  CHECK(zeCommandListCreateImmediate(context, device, &queue, &list));
}

int main(int count, char** arguments) {
  if (count < 3) return 2;
  if (count > 3) pti_begin(arguments[3]);
  uint32_t one = 1;
  ze_driver_handle_t driver;
  ze_device_handle_t device;
  ze_context_handle_t context;
  CHECK(zeInit(0));
  CHECK(zeDriverGet(&one, &driver));
  CHECK(zeDeviceGet(driver, &one, &device));
  ze_context_desc_t context_description = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
  CHECK(zeContextCreate(driver, &context_description, &context));
  if (count > 3) pti_start();
  ze_module_handle_t module = load(context, device, arguments[1]);
  ze_kernel_desc_t kernel_description = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC, .pKernelName = "matmul"};
  ze_kernel_handle_t kernel;
  CHECK(zeKernelCreate(module, &kernel_description, &kernel));
  prepare(context, device);
  void* matrix;
  int size = 64;
  ze_device_mem_alloc_desc_t memory = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
  CHECK(zeMemAllocDevice(context, &memory, 1 << 20, 64, device, &matrix));
  for (uint32_t at = 0; at < 3; at++) CHECK(zeKernelSetArgumentValue(kernel, at, sizeof matrix, &matrix));
  CHECK(zeKernelSetArgumentValue(kernel, 3, sizeof size, &size));
  CHECK(zeKernelSetGroupSize(kernel, 16, 16, 1));
  for (int times = atoi(arguments[2]); times > 0; times--) {
    first(kernel);
    second(kernel);
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
  if (count > 3) pti_print();
  return 0;
}
