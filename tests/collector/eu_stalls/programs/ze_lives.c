// A program of Level Zero that looks its functions up: ze_lives SCENE LOADER BINARY [HIP]. Each turn launches the kernel `matmul` ten times.
#define _GNU_SOURCE
#include <level_zero/ze_api.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void* library;
#define ZE(function) ((__typeof__(&function))dlsym(library, #function))
#define CHECK(function, ...)                                                                  \
  do {                                                                                        \
    ze_result_t result = ZE(function)(__VA_ARGS__);                                           \
    if (result) fprintf(stderr, "%s: 0x%x\n", #function, (unsigned)result), exit(1);          \
  } while (0)

static ze_driver_handle_t driver;
static ze_device_handle_t device;
static ze_context_handle_t context;
static ze_module_handle_t module;
static ze_kernel_handle_t kernel;
static ze_command_list_handle_t list;
static ze_event_pool_handle_t pool;
static ze_event_handle_t event;
static void* matrix;

static void begin(const char* loader, const char* path) {
  if (!(library = dlopen(loader, RTLD_NOW | RTLD_LOCAL))) fprintf(stderr, "%s\n", dlerror()), exit(1);
  uint32_t one = 1;
  CHECK(zeInit, 0);
  CHECK(zeDriverGet, &one, &driver);
  CHECK(zeDeviceGet, driver, &one, &device);
  CHECK(zeContextCreate, driver, &(ze_context_desc_t){.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC}, &context);
  static uint8_t code[1 << 20];
  FILE* file = fopen(path, "rb");
  ze_module_desc_t binary = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC, .format = ZE_MODULE_FORMAT_NATIVE, .pInputModule = code};
  binary.inputSize = file ? fread(code, 1, sizeof code, file) : 0;
  if (file) fclose(file);
  CHECK(zeModuleCreate, context, device, &binary, &module, NULL);
  CHECK(zeKernelCreate, module, &(ze_kernel_desc_t){.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC, .pKernelName = "matmul"}, &kernel);
  ze_event_pool_desc_t events = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE, .count = 1};
  CHECK(zeEventPoolCreate, context, &events, 0, NULL, &pool);
  ze_event_desc_t host = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC, .signal = ZE_EVENT_SCOPE_FLAG_HOST, .wait = ZE_EVENT_SCOPE_FLAG_HOST};
  CHECK(zeEventCreate, pool, &host, &event);
  ze_command_queue_desc_t queue = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
  CHECK(zeCommandListCreateImmediate, context, device, &queue, &list);
  ze_device_mem_alloc_desc_t memory = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
  CHECK(zeMemAllocDevice, context, &memory, 1 << 16, 64, device, &matrix);
  int size = 16;
  for (uint32_t at = 0; at < 3; at++) CHECK(zeKernelSetArgumentValue, kernel, at, sizeof matrix, &matrix);
  CHECK(zeKernelSetArgumentValue, kernel, 3, sizeof size, &size);
  CHECK(zeKernelSetGroupSize, kernel, 16, 16, 1);
}

// Until the recorder samples, for two seconds at most.
static void wait_for_recorder(void) {
  int (*enabled)(const char*, int) = (int (*)(const char*, int))dlsym(RTLD_DEFAULT, "fake_xe_enabled");
  for (int times = 0; enabled && !enabled("renderD128", 0) && times < 400; times++) usleep(5000);
}

static void turn(void) {
  for (int times = 0; times < 10; times++) {
    CHECK(zeCommandListAppendLaunchKernel, list, kernel, &(ze_group_count_t){5, 1, 1}, event, 0, NULL);
    CHECK(zeEventHostSynchronize, event, UINT64_MAX);
    CHECK(zeEventHostReset, event);
  }
}

static ze_executable_graph_handle_t graph;

static int by_extensions;

static void launch(uint32_t groups) { CHECK(zeCommandListAppendLaunchKernel, list, kernel, &(ze_group_count_t){groups, 1, 1}, NULL, 0, NULL); }

__attribute__((noinline)) static void capture(void) {
  ze_graph_handle_t recorded;
  CHECK(zeCommandListBeginGraphCaptureExt, list, NULL);
  launch(5);
  launch(10);
  CHECK(zeCommandListEndGraphCaptureExt, list, NULL, &recorded);
  CHECK(zeGraphInstantiateExt, recorded, NULL, &graph);
  CHECK(zeGraphDestroyExt, recorded);
}

// The kernel of 10 groups runs on another list, between two events.
__attribute__((noinline)) static void capture_two_lists(void) {
  ze_event_pool_desc_t events = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE, .count = 2};
  ze_event_pool_handle_t edges;
  ze_event_handle_t forks, joins;
  ze_graph_handle_t recorded;
  CHECK(zeEventPoolCreate, context, &events, 0, NULL, &edges);
  CHECK(zeEventCreate, edges, &(ze_event_desc_t){.stype = ZE_STRUCTURE_TYPE_EVENT_DESC}, &forks);
  CHECK(zeEventCreate, edges, &(ze_event_desc_t){.stype = ZE_STRUCTURE_TYPE_EVENT_DESC, .index = 1}, &joins);
  ze_command_queue_desc_t queue = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
  ze_command_list_handle_t other;
  CHECK(zeCommandListCreateImmediate, context, device, &queue, &other);
  CHECK(zeCommandListBeginGraphCaptureExt, list, NULL);
  CHECK(zeCommandListAppendLaunchKernel, list, kernel, &(ze_group_count_t){5, 1, 1}, forks, 0, NULL);
  CHECK(zeCommandListAppendLaunchKernel, other, kernel, &(ze_group_count_t){10, 1, 1}, NULL, 1, &forks);
  CHECK(zeCommandListAppendBarrier, other, joins, 0, NULL);
  CHECK(zeCommandListAppendBarrier, list, NULL, 1, &joins);
  CHECK(zeCommandListEndGraphCaptureExt, list, NULL, &recorded);
  CHECK(zeGraphInstantiateExt, recorded, NULL, &graph);
}

static void* extension(const char* name) {
  void* function = NULL;
  CHECK(zeDriverGetExtensionFunctionAddress, driver, name, &function);
  return function;
}

// By the older functions, which drivers hand out by their names.
__attribute__((noinline)) static void capture_by_extensions(void) {
  ze_graph_handle_t recorded;
  ze_result_t (*begins)(ze_command_list_handle_t, void*) = extension("zeCommandListBeginGraphCaptureExp");
  ze_result_t (*ends)(ze_command_list_handle_t, ze_graph_handle_t*, void*) = extension("zeCommandListEndGraphCaptureExp");
  ze_result_t (*instantiate)(ze_graph_handle_t, ze_executable_graph_handle_t*, void*) = extension("zeCommandListInstantiateGraphExp");
  if (begins(list, NULL)) exit(5);
  launch(5);
  launch(10);
  if (ends(list, &recorded, NULL) || instantiate(recorded, &graph, NULL)) exit(6);
}

__attribute__((noinline)) static void replay(void) {
  if (by_extensions) {
    ze_result_t (*append)(ze_command_list_handle_t, ze_executable_graph_handle_t, void*, ze_event_handle_t, uint32_t, ze_event_handle_t*) =
        extension("zeCommandListAppendGraphExp");
    if (append(list, graph, NULL, NULL, 0, NULL)) exit(7);
  } else {
    CHECK(zeCommandListAppendGraphExt, list, graph, NULL, NULL, 0, NULL);
  }
  CHECK(zeCommandListHostSynchronize, list, UINT64_MAX);
}

__attribute__((noinline)) static void first(void) {
  for (int times = 0; times < 3; times++) replay();
}

__attribute__((noinline)) static void second(void) {
  replay();
  __asm__ volatile("");
}

static void end(void) {
  CHECK(zeMemFree, context, matrix);
  CHECK(zeCommandListDestroy, list);
  CHECK(zeEventDestroy, event);
  CHECK(zeEventPoolDestroy, pool);
  CHECK(zeKernelDestroy, kernel);
  CHECK(zeModuleDestroy, module);
  CHECK(zeContextDestroy, context);
  dlclose(library);
}

int main(int count, char** arguments) {
  if (count < 4) return 2;
  const char *scene = arguments[1], *loader = arguments[2], *binary = arguments[3];
  begin(loader, binary);
  wait_for_recorder();
  turn();
  if (!strcmp(scene, "fork")) {  // the child closes what it has inherited, as a daemon does
    pid_t child = fork();
    if (!child) {
      for (int number = 3; number < 1024; number++) close(number);
      _exit(0);
    }
    waitpid(child, NULL, 0);
    turn();
  } else if (!strcmp(scene, "exec")) {
    void (*tell)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "fake_xe_tell");
    if (tell) tell();
    execl("/proc/self/exe", arguments[0], "plain", loader, binary, (char*)NULL);
    return 1;
  } else if (!strcmp(scene, "dlclose")) {
    end();
    begin(loader, binary);
    turn();
  } else if (!strcmp(scene, "graph") || !strcmp(scene, "older-graph") || !strcmp(scene, "two-lists")) {
    by_extensions = scene[0] == 'o';
    by_extensions ? capture_by_extensions() : scene[0] == 't' ? capture_two_lists() : capture();
    for (int times = 0; times < 3; times++) first(), second();
    if (!by_extensions) CHECK(zeExecutableGraphDestroyExt, graph);
  } else if (!strcmp(scene, "refused-end")) {  // the list captures until a call ends it that the driver takes
    ze_graph_handle_t recorded;
    CHECK(zeCommandListBeginGraphCaptureExt, list, NULL);
    launch(5);
    if (!ZE(zeCommandListEndGraphCaptureExt)(list, NULL, NULL)) return 5;
    launch(5);
    CHECK(zeCommandListEndGraphCaptureExt, list, NULL, &recorded);
    turn();
  } else if (!strcmp(scene, "vendors")) {  // a GPU of AMD's beside
    void* hip = dlopen(arguments[4], RTLD_NOW);
    if (!hip) return 3;
    int (*allocate)(void**, size_t) = (int (*)(void**, size_t))dlsym(hip, "hipMalloc");
    int (*release)(void*) = (int (*)(void*))dlsym(hip, "hipFree");
    for (int times = 0; times < 3; times++) {
      void* memory;
      if (allocate(&memory, 256) || release(memory)) return 4;
    }
    turn();
  }
  return 0;
}
