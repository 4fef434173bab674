// What CUPTI costs by itself: the records and the callbacks that a recording asks it for, with nothing done in them.
//
//   cc -shared -fPIC -O2 -o libfloor.so gpu_floor.c -ldl -pthread
//   CUDA_INJECTION64_PATH=libfloor.so FLOOR_CUPTI=…/libcupti.so.13 python train.py
//
// With FLOOR_SAMPLING=200 the first context's stalls are sampled too, as often as a recording samples an H200, and thrown away; CUPTI decodes
// them every 200 ms.
//
// No header of CUPTI's is needed: the few numbers and prototypes have been the same since CUDA 12.0, those of sampling since 12.4.
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DRIVER_API = 1, RUNTIME_API = 2, MOST_CALLS = 1024, BUFFER_BYTES = 1 << 20 };
static const int kKinds[] = {10, 1, 22, 2};  // concurrent kernels, copies, copies between devices, fills

enum { RESOURCE = 3, CONTEXT_CREATED = 1 };

static void* cupti;

// Every function of sampling takes one of these, with as many words behind the context as it needs.
struct Question {
  size_t bytes;
  void *reserved, *context;
  uintptr_t words[3];
};
struct Attribute {
  uint32_t type, status;
  uintptr_t words[3];
};
struct Instruction {
  size_t bytes;
  uint64_t module, offset;
  uint32_t function, unused;
  char* name;
  size_t reason_count;
  void* reasons;
  uint32_t correlation;
};
struct Samples {
  size_t bytes, most;
  uint64_t total, dropped;
  size_t instructions, remaining;
  uint64_t range;
  struct Instruction* of;
  uint64_t of_the_drivers;
  uint8_t is_full;
};

enum { MOST_REASONS = 64, NAME_BYTES = 256, FETCHED = 16384, CONFIGURED = 4096, PERIOD_LOG2 = 23 };
enum { PERIOD = 1, REASONS = 2, SCRATCH = 3, DEVICE_BUFFER = 4, MODE = 5, BUFFER = 8, DECODE_EVERY = 9, CONTINUOUS = 1 };

static int ask(const char* name, void* context, size_t count, uintptr_t first, uintptr_t second, uintptr_t third) {
  struct Question question = {offsetof(struct Question, words) + count * sizeof first, NULL, context, {first, second, third}};
  int (*function)(struct Question*) = dlsym(cupti, name);
  return function ? function(&question) : -1;
}

static struct Samples* room_for(size_t instructions, size_t reasons) {
  struct Samples* samples = calloc(1, sizeof *samples);
  *samples = (struct Samples){.bytes = sizeof *samples, .most = instructions, .of = calloc(instructions, sizeof *samples->of)};
  for (size_t at = 0; at < instructions; at++) {
    samples->of[at].bytes = sizeof *samples->of;
    samples->of[at].reasons = calloc(reasons, sizeof(uint64_t));
  }
  return samples;
}

static struct Samples* fetched;
static uint64_t came;
static unsigned decode_ms;

__attribute__((destructor)) static void tell() {
  if (fetched && !came) fprintf(stderr, "floor: no sample came\n");
}

static void* fetch(void* context) {
  for (;;) {
    usleep(decode_ms * 1000);
    do {
      fetched->total = fetched->dropped = fetched->instructions = fetched->remaining = fetched->of_the_drivers = fetched->is_full = 0;
      if (ask("cuptiPCSamplingGetData", context, 1, (uintptr_t)fetched, 0, 0)) return fprintf(stderr, "floor: samples are not told\n"), NULL;
      came += fetched->total;
    } while (fetched->remaining);
  }
}

static int sample(void* context) {
  static uint32_t reasons[MOST_REASONS];
  static char texts[MOST_REASONS][NAME_BYTES], *names[MOST_REASONS];
  size_t count = 0;
  if (ask("cuptiPCSamplingEnable", context, 0, 0, 0, 0) || ask("cuptiPCSamplingGetNumStallReasons", context, 1, (uintptr_t)&count, 0, 0)) return 1;
  if (count > MOST_REASONS) count = MOST_REASONS;
  for (size_t at = 0; at < count; at++) names[at] = texts[at];
  if (ask("cuptiPCSamplingGetStallReasons", context, 3, count, (uintptr_t)reasons, (uintptr_t)names)) return 1;
  fetched = room_for(FETCHED, count);
  struct Attribute attributes[] = {{MODE, 0, {CONTINUOUS}},        {REASONS, 0, {count, (uintptr_t)reasons}},
                                   {PERIOD, 0, {PERIOD_LOG2}},     {BUFFER, 0, {(uintptr_t)room_for(CONFIGURED, count)}},
                                   {DEVICE_BUFFER, 0, {16 << 20}}, {SCRATCH, 0, {8 << 20}},
                                   {DECODE_EVERY, 0, {decode_ms}}};
  if (ask("cuptiPCSamplingSetConfigurationAttribute", context, 2, sizeof attributes / sizeof *attributes, (uintptr_t)attributes, 0)) return 1;
  pthread_t thread;
  return pthread_create(&thread, NULL, fetch, context);
}

static void on_call(void* data, int domain, uint32_t call, const void* told) {
  (void)data;
  if (domain != RESOURCE || call != CONTEXT_CREATED || fetched) return;
  if (sample(*(void* const*)told)) fprintf(stderr, "floor: CUPTI does not sample\n");
}

static void on_buffer_wanted(uint8_t** buffer, size_t* bytes, size_t* most) {
  *buffer = malloc(BUFFER_BYTES);
  *bytes = *buffer ? BUFFER_BYTES : 0;
  *most = 0;
}

static void on_buffer_full(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t used) {
  (void)context, (void)stream, (void)bytes, (void)used;
  free(buffer);
}

static int is_wanted(int domain, const char* name) {
  static const char* const kDriver[] = {"cuLaunch",         "cuGraphLaunch",     "cuMemcpy", "cuMemset", "cuStreamSynchronize",
                                        "cuCtxSynchronize", "cuEventSynchronize"};
  static const char* const kRuntime[] = {"cudaMemcpy", "cudaMemset", "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize"};
  const char* const* names = domain == DRIVER_API ? kDriver : kRuntime;
  size_t count = domain == DRIVER_API ? sizeof kDriver / sizeof *kDriver : sizeof kRuntime / sizeof *kRuntime;
  for (size_t at = 0; at < count; at++)
    if (strncmp(name, names[at], strlen(names[at])) == 0) return 1;
  return 0;
}

int InitializeInjection(void) {
  void* subscriber = NULL;
  cupti = dlopen(getenv("FLOOR_CUPTI"), RTLD_NOW);
  if (!cupti) return fprintf(stderr, "floor: %s\n", dlerror()), 1;
  int (*subscribe)(void**, void*, void*) = dlsym(cupti, "cuptiSubscribe");
  int (*enable)(uint32_t, void*, int, uint32_t) = dlsym(cupti, "cuptiEnableCallback");
  int (*name_of)(int, uint32_t, const char**) = dlsym(cupti, "cuptiGetCallbackName");
  int (*buffers)(void*, void*) = dlsym(cupti, "cuptiActivityRegisterCallbacks");
  int (*record)(int) = dlsym(cupti, "cuptiActivityEnable");
  int failed = subscribe(&subscriber, on_call, NULL) || buffers(on_buffer_wanted, on_buffer_full);
  for (int domain = DRIVER_API; domain <= RUNTIME_API; domain++)
    for (uint32_t call = 1; call < MOST_CALLS; call++) {
      const char* name = NULL;
      if (name_of(domain, call, &name) == 0 && name && is_wanted(domain, name)) failed |= enable(1, subscriber, domain, call);
    }
  const char* sampling = getenv("FLOOR_SAMPLING");
  decode_ms = sampling ? (unsigned)atoi(sampling) : 0;
  if (decode_ms) failed |= enable(1, subscriber, RESOURCE, CONTEXT_CREATED);
  for (size_t at = 0; at < sizeof kKinds / sizeof *kKinds; at++) failed |= record(kKinds[at]);
  if (failed) fprintf(stderr, "floor: CUPTI refused\n");
  return 1;
}
