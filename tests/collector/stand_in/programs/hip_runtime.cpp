// A HIP runtime for tests: it checks its arguments as strictly as a test needs. Linked as libamdhip64.so.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#define EXPORT extern "C" __attribute__((visibility("default")))

struct dim3 {
  uint32_t x, y, z;
};
struct Handle {
  char bytes[64];
};
struct ChannelDesc {
  int x, y, z, w, kind;
};

static void expect(bool right, const char* what) {
  if (right) return;
  fprintf(stderr, "libamdhip64: %s\n", what);
  abort();
}

static void sleep_ms(long ms) {
  timespec time{ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&time, nullptr);
}

static int last_error = 0;

EXPORT int hipInit(unsigned flags) { return flags ? last_error = 1 : 0; }
EXPORT int hipMalloc(void** memory, size_t bytes) { return (*memory = malloc(bytes)) ? 0 : 2; }
EXPORT int hipFree(void* memory) { return free(memory), 0; }
// Calls its own function as the program would: through the symbol.
EXPORT int hipMemcpyAsync(void* to, const void* from, size_t bytes, int, void*) { return to ? memcpy(to, from, bytes), 0 : (last_error = 1); }
EXPORT int hipMemcpy(void* to, const void* from, size_t bytes, int kind) { return hipMemcpyAsync(to, from, bytes, kind, nullptr); }
EXPORT int hipMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  for (size_t row = 0; row < height; row++) memset(static_cast<char*>(to) + row * pitch, value, width);
  return 0;
}
EXPORT int hipMemsetD32(void* to, int value, size_t count) {
  for (size_t at = 0; at < count; at++) static_cast<int*>(to)[at] = value;
  return 0;
}
EXPORT int hipLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, void* stream) {
  expect(grid.x == 1 && grid.y == 2 && grid.z == 3 && block.x == 4 && block.y == 5 && block.z == 6, "hipLaunchKernel: dimensions");
  expect(function && !arguments && shared == 7 && stream == reinterpret_cast<void*>(8), "hipLaunchKernel: arguments");
  return 0;
}
EXPORT int hipLaunchKernel_spt(const void*, dim3, dim3, void**, size_t, void*) { return 0; }
EXPORT int hipExtModuleLaunchKernel(void* function, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e, uint32_t f, size_t shared,
                                    void* stream, void** parameters, void** extra, void* start, void* stop, uint32_t flags) {
  expect(function && a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && shared == 7, "hipExtModuleLaunchKernel: the first");
  expect(!stream && !parameters && !extra && start == reinterpret_cast<void*>(11) && stop == reinterpret_cast<void*>(12) && flags == 13,
         "hipExtModuleLaunchKernel: the last");
  return 0;
}
EXPORT int hipIpcOpenMemHandle(void** memory, Handle handle, unsigned flags) {
  for (int at = 0; at < 64; at++) expect(handle.bytes[at] == at, "hipIpcOpenMemHandle: the handle");
  expect(flags == 9, "hipIpcOpenMemHandle: flags");
  return *memory = nullptr, 0;
}
EXPORT int hipTexRefSetMipmapLevelClamp(void* texture, float low, float high) {
  expect(texture && low == 0.25f && high == 8.5f, "hipTexRefSetMipmapLevelClamp: numbers");
  return 0;
}
EXPORT ChannelDesc hipCreateChannelDesc(int x, int y, int z, int w, int kind) { return {x, y, z, w, kind}; }
EXPORT const char* hipGetErrorName(int error) { return error ? "hipErrorInvalidValue" : "hipSuccess"; }
EXPORT int hipGetLastError() {
  int error = last_error;
  last_error = 0;
  return error;
}
EXPORT int hipStreamQuery(void*) { return 600; }
EXPORT int hipStreamSynchronize(void*) { return sleep_ms(60), 0; }
EXPORT int hipDeviceSynchronize() { return sleep_ms(150), 0; }

// Newer than aiflame's list of functions.
EXPORT uint64_t hipFoldSpace(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h, uint64_t i, double x) {
  return a + b + c + d + e + f + g + h + i + static_cast<uint64_t>(x);
}

// By name: as some are called by an older one's, the one for the stream of the thread.
EXPORT int hipGetProcAddress(const char* name, void** function, int version, uint64_t flags, int*) {
  expect(version == 700, "hipGetProcAddress: version");
  if (!strcmp(name, "hipLaunchKernel"))
    *function = flags ? reinterpret_cast<void*>(hipLaunchKernel_spt) : reinterpret_cast<void*>(hipLaunchKernel);
  else if (!strcmp(name, "hipFoldSpace"))
    *function = reinterpret_cast<void*>(hipFoldSpace);
  else
    return 500;
  return 0;
}
