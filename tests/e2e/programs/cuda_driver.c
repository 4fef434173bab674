// A CUDA driver and its compiler without a GPU: as much as `aiflame.demo` calls, with the prototypes of cuda.h. A kernel is told by its
// name; a launch multiplies on the CPU what its grid would. Every wrong argument is an error, as it would be for the real ones.
#include <cuda.h>

#include <stdlib.h>
#include <string.h>

static const char kCubin[] = "a\0cubin";
static int device_current;

static CUresult wrong(int is_wrong) { return is_wrong ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_NO_DEVICE ? "no device, says the test" : "wrong argument, says the test";
  return CUDA_SUCCESS;
}

CUresult cuInit(unsigned flags) { return getenv("NO_DEVICE") ? CUDA_ERROR_NO_DEVICE : wrong(flags != 0); }

CUresult cuDriverGetVersion(int* version) {
  *version = 13010;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = 7;
  return wrong(ordinal != 0);
}

CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  strncpy(name, "a GPU of the test", (size_t)size);
  return wrong(device != 7);
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  *value = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0 : -1;
  return wrong(*value < 0 || device != 7);
}

// Handles that do not fit into 32 bits.
static void* const kContext = (void*)0x7000000000000001;
static void* const kModule = (void*)0x7000000000000002;
static void* const kFunctions[] = {(void*)0x7000000000000010, (void*)0x7000000000000011, (void*)0x7000000000000012};

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = kContext;
  return wrong(device != 7);
}

CUresult cuCtxSetCurrent(CUcontext context) {
  device_current = context == kContext;
  return wrong(!device_current);
}

CUresult cuCtxSynchronize(void) { return wrong(!device_current); }

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  *module = kModule;
  return wrong(memcmp(image, kCubin, sizeof kCubin) != 0);
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  *function = strcmp(name, "matmul_basic") == 0     ? kFunctions[0]
              : strcmp(name, "matmul_blocked") == 0 ? kFunctions[1]
              : strcmp(name, "matmul_tiled") == 0   ? kFunctions[2]
                                                    : NULL;
  return wrong(module != kModule || *function == NULL);
}

// Addresses of the device are not those of the host.
#define DEVICE 0x4000000000000000ull
#define HOST(address) ((void*)((address) - DEVICE))

CUresult cuMemAlloc(CUdeviceptr* address, size_t size) {
  *address = (CUdeviceptr)calloc(size, 1) + DEVICE;
  return wrong(size == 0);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t size) {
  memcpy(HOST(to), from, size);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t size) {
  memcpy(to, HOST(from), size);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned shared, CUstream stream, void** arguments, void** extra) {
  unsigned n = *(unsigned*)arguments[0];
  const float* a = HOST(*(CUdeviceptr*)arguments[1]);
  const float* b = HOST(*(CUdeviceptr*)arguments[2]);
  float* c = HOST(*(CUdeviceptr*)arguments[3]);
  int tiled = function == kFunctions[2];
  unsigned threads = tiled ? 16 : 32, side = tiled ? 128 : 32;
  if (function != kFunctions[0] && function != kFunctions[1] && !tiled) return CUDA_ERROR_INVALID_HANDLE;
  if (!device_current || grid_z != 1 || block_x != threads || block_y != threads || block_z != 1 || shared || stream || extra)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned row = 0; row < grid_y * side && row < n; row++) {
    for (unsigned column = 0; column < grid_x * side && column < n; column++) {
      double sum = 0;
      for (unsigned k = 0; k < n; k++) sum += (double)a[row * n + k] * b[k * n + column];
      c[row * n + column] = getenv("WRONG_PRODUCT") && tiled ? 0 : (float)sum;
    }
  }
  return CUDA_SUCCESS;
}
