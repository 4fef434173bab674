// What CUPTI costs by itself: the records and the callbacks that a recording asks it for, with nothing done in them.
//
//   cc -shared -fPIC -O2 -o libfloor.so gpu_floor.c -ldl
//   CUDA_INJECTION64_PATH=libfloor.so FLOOR_CUPTI=…/libcupti.so.13 python train.py
//
// No header of CUPTI's is needed: the few numbers and prototypes have been the same since CUDA 12.0.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRIVER_API = 1, RUNTIME_API = 2, MOST_CALLS = 1024, BUFFER_BYTES = 1 << 20 };
static const int kKinds[] = {10, 1, 22, 2};  // concurrent kernels, copies, copies between devices, fills

static void on_call(void* data, int domain, uint32_t call, const void* told) { (void)data, (void)domain, (void)call, (void)told; }

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
  static const char* const kDriver[] = {"cuLaunch",            "cuGraphLaunch",    "cuMemcpy",          "cuMemset",
                                        "cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize"};
  static const char* const kRuntime[] = {"cudaMemcpy", "cudaMemset", "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize"};
  const char* const* names = domain == DRIVER_API ? kDriver : kRuntime;
  size_t count = domain == DRIVER_API ? sizeof kDriver / sizeof *kDriver : sizeof kRuntime / sizeof *kRuntime;
  for (size_t at = 0; at < count; at++)
    if (strncmp(name, names[at], strlen(names[at])) == 0) return 1;
  return 0;
}

int InitializeInjection(void) {
  void *cupti = dlopen(getenv("FLOOR_CUPTI"), RTLD_NOW), *subscriber = NULL;
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
  for (size_t at = 0; at < sizeof kKinds / sizeof *kKinds; at++) failed |= record(kKinds[at]);
  if (failed) fprintf(stderr, "floor: CUPTI refused\n");
  return 1;
}
