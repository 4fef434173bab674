// Intel's own library for profilers (PTI) samples the kernels of the program, and prints its samples. Declarations after its pti_pc_sampling.h.
#include "pti_samples.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reason {
  size_t size;
  const char *name, *description;
};
struct instruction {
  uint64_t offset;
  void* source;
};
struct kernel {
  size_t size;
  void* device;
  uint64_t handle;
  const char* name;
  size_t reasons, instructions;
  uint64_t* sums;
};

enum { MOST = 4096, MOST_REASONS = 32, GPU_KERNELS = 1, PERIOD_NS = 100000 };

static void* library;
static void* session;

static void* function(const char* name) {
  void* address = dlsym(library, name);
  if (address) return address;
  fprintf(stderr, "%s: not there\n", name);
  exit(1);
}

static void check(const char* name, int result) {
  if (!result) return;
  fprintf(stderr, "%s: %d\n", name, result);
  exit(1);
}
#define CALL(name, types, ...) check(#name, ((int(*) types)function(#name))(__VA_ARGS__))

static void give_buffer(unsigned char** buffer, size_t* size) {
  *size = 1 << 20;
  *buffer = malloc(*size);
}
static void take_buffer(unsigned char* buffer, size_t size, size_t used) {
  (void)size, (void)used;
  free(buffer);
}

void pti_begin(const char* path) {
  library = dlopen(path, RTLD_NOW);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  CALL(ptiViewSetCallbacks, (void*, void*), (void*)give_buffer, (void*)take_buffer);
  CALL(ptiViewEnable, (int), GPU_KERNELS);
}

void pti_start(void) {
  CALL(ptiPcSamplingEnable, (void**), &session);
  CALL(ptiPcSamplingConfigure, (void*, void*, size_t, uint32_t), session, NULL, 0, PERIOD_NS);
  CALL(ptiPcSamplingStartCollection, (void*), session);
}

static void print_kernel(void* device, uint64_t handle, const struct reason* reasons, size_t reason_count) {
  static struct instruction instructions[MOST];
  static uint64_t samples[MOST * MOST_REASONS], sums[MOST_REASONS];
  struct kernel kernel = {.size = sizeof kernel, .sums = sums};
  CALL(ptiPcSamplingGetObservedKernelInfo, (void*, void*, uint64_t, void*), session, device, handle, &kernel);
  size_t count = kernel.instructions;
  CALL(ptiPcSamplingGetSamplesPerInstruction, (void*, void*, uint64_t, void*, size_t, void*, size_t), session, device, handle, instructions, count,
       samples, count * reason_count);
  for (size_t at = 0; at < count; at++)
    for (size_t reason = 0; reason < reason_count; reason++)
      if (samples[at * reason_count + reason])
        printf("%s %llu %s %llu\n", kernel.name, (unsigned long long)instructions[at].offset, reasons[reason].name,
               (unsigned long long)samples[at * reason_count + reason]);
}

void pti_print(void) {
  CALL(ptiPcSamplingStopCollection, (void*), session);
  struct reason reasons[MOST_REASONS];
  size_t reason_count = 0, device_count = 1, kernel_count = 0;
  for (size_t at = 0; at < MOST_REASONS; at++) reasons[at].size = sizeof reasons[at];
  CALL(ptiPcSamplingGetStallReasons, (void*, void*, size_t*), session, NULL, &reason_count);
  CALL(ptiPcSamplingGetStallReasons, (void*, void*, size_t*), session, reasons, &reason_count);
  void* device = NULL;
  CALL(ptiPcSamplingGetProfiledDevices, (void*, void*, size_t*), session, &device, &device_count);
  uint64_t kernels[16];
  CALL(ptiPcSamplingGetObservedKernelHandles, (void*, void*, void*, size_t*), session, device, NULL, &kernel_count);
  if (reason_count > MOST_REASONS || kernel_count > 16) abort();
  CALL(ptiPcSamplingGetObservedKernelHandles, (void*, void*, void*, size_t*), session, device, kernels, &kernel_count);
  for (size_t at = 0; at < kernel_count; at++) print_kernel(device, kernels[at], reasons, reason_count);
  CALL(ptiPcSamplingDisable, (void*), session);
}
