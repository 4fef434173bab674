// A program of HIP: hip_client SCENE prints how often it called each function, as JSON. Compiled with -DPLUGIN it is a library that another program
// loads for itself alone.
#include <dlfcn.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

struct dim3 {
  uint32_t x, y, z;
};
struct Handle {
  char bytes[64];
};
struct ChannelDesc {
  int x, y, z, w, kind;
};

extern "C" {
int hipInit(unsigned);
int hipMalloc(void**, size_t);
int hipFree(void*);
int hipMemcpy(void*, const void*, size_t, int);
int hipMemset2D(void*, size_t, int, size_t, size_t);
int hipMemsetD32(void*, int, size_t);
int hipLaunchKernel(const void*, dim3, dim3, void**, size_t, void*);
int hipExtModuleLaunchKernel(void*, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, size_t, void*, void**, void**, void*, void*,
                             uint32_t);
int hipIpcOpenMemHandle(void**, Handle, unsigned);
int hipTexRefSetMipmapLevelClamp(void*, float, float);
ChannelDesc hipCreateChannelDesc(int, int, int, int, int);
const char* hipGetErrorName(int);
int hipGetLastError();
int hipStreamQuery(void*);
int hipStreamSynchronize(void*);
int hipDeviceSynchronize();
uint64_t hipFoldSpace(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, double);
int hipGetProcAddress(const char*, void**, int, uint64_t, int*);
}

static std::map<std::string, int> counts;
#define CALL(function, ...) (counts[#function]++, function(__VA_ARGS__))
#define EXPECT(what) \
  if (!(what)) fprintf(stderr, "not so: %s\n", #what), abort()

static void tell() {
  const char* separator = "{";
  for (auto& [name, count] : counts) printf("%s\"%s\": %d", separator, name.c_str(), count), separator = ", ";
  printf("}\n");
}

#ifndef LOOKS_UP
static void calls() {
  int data[64] = {}, other[64] = {};
  void* memory = nullptr;
  EXPECT(CALL(hipInit, 0) == 0);
  for (int turn = 0; turn < 5; turn++) EXPECT(CALL(hipMalloc, &memory, 256) == 0 && CALL(hipFree, memory) == 0);
  for (int turn = 0; turn < 7; turn++) EXPECT(CALL(hipMemcpy, data, other, sizeof data, 4) == 0);
  EXPECT(CALL(hipMemset2D, data, 16, 1, 8, 3) == 0);
  EXPECT(CALL(hipMemsetD32, data, 1, 10) == 0 && data[9] == 1);
  for (int turn = 0; turn < 11; turn++) EXPECT(CALL(hipLaunchKernel, data, {1, 2, 3}, {4, 5, 6}, nullptr, 7, reinterpret_cast<void*>(8)) == 0);
  EXPECT(CALL(hipExtModuleLaunchKernel, data, 1, 2, 3, 4, 5, 6, 7, nullptr, nullptr, nullptr, reinterpret_cast<void*>(11),
              reinterpret_cast<void*>(12), 13) == 0);
  Handle handle;
  for (int at = 0; at < 64; at++) handle.bytes[at] = static_cast<char>(at);
  EXPECT(CALL(hipIpcOpenMemHandle, &memory, handle, 9) == 0);
  EXPECT(CALL(hipTexRefSetMipmapLevelClamp, data, 0.25f, 8.5f) == 0);
  ChannelDesc channels = CALL(hipCreateChannelDesc, 1, 2, 3, 4, 5);
  EXPECT(channels.x == 1 && channels.w == 4 && channels.kind == 5);
  EXPECT(CALL(hipMemcpy, nullptr, other, 64, 4) == 1);
  EXPECT(CALL(hipGetLastError) == 1 && !strcmp(CALL(hipGetErrorName, 1), "hipErrorInvalidValue"));
  for (int turn = 0; turn < 3; turn++) EXPECT(CALL(hipStreamQuery, nullptr) == 600);
  for (int turn = 0; turn < 2; turn++) EXPECT(CALL(hipStreamSynchronize, nullptr) == 0);
  EXPECT(CALL(hipDeviceSynchronize) == 0);
  EXPECT(hipFoldSpace(1, 2, 3, 4, 5, 6, 7, 8, 9, 10.5) == 55);
}
#endif

#ifdef PLUGIN
extern "C" void run() {
  calls();
  tell();
}
#elif defined(LOOKS_UP)
template <class Function>
static Function* get(void* library, const char* name) {
  auto* found = reinterpret_cast<Function*>(dlsym(library, name));
  EXPECT(found && !dlerror());
  return found;
}

// As Triton and Python do; or as somebody who loads a library that is linked with HIP.
int main(int count, char** arguments) {
  EXPECT(count == 3);
  void* library = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
  if (!strcmp(arguments[1], "plugin")) return get<void()>(library, "run")(), 0;
  if (!strcmp(arguments[1], "foreign")) return printf("%d\n", get<int(int)>(library, "run")(20)), 0;
  EXPECT(!dlsym(library, "hipNobodyHasThis") && dlerror());
  auto* hipInit = get<decltype(::hipInit)>(library, "hipInit");
  auto* hipGetProcAddress = get<decltype(::hipGetProcAddress)>(library, "hipGetProcAddress");
  auto* hipFoldSpace = get<decltype(::hipFoldSpace)>(library, "hipFoldSpace");
  for (int turn = 0; turn < 4; turn++) EXPECT(CALL(hipInit, 0) == 0);
  EXPECT(hipFoldSpace(1, 2, 3, 4, 5, 6, 7, 8, 9, 10.5) == 55);
  void* function = nullptr;
  EXPECT(CALL(hipGetProcAddress, "hipLaunchKernel", &function, 700, 0, nullptr) == 0);
  auto* hipLaunchKernel = reinterpret_cast<decltype(&::hipLaunchKernel)>(function);
  for (int turn = 0; turn < 2; turn++) EXPECT(CALL(hipLaunchKernel, &counts, {1, 2, 3}, {4, 5, 6}, nullptr, 7, reinterpret_cast<void*>(8)) == 0);
  EXPECT(CALL(hipGetProcAddress, "hipLaunchKernel", &function, 700, 1, nullptr) == 0);
  auto* hipLaunchKernel_spt = reinterpret_cast<decltype(&::hipLaunchKernel)>(function);
  for (int turn = 0; turn < 3; turn++) EXPECT(CALL(hipLaunchKernel_spt, nullptr, {}, {}, nullptr, 0, nullptr) == 0);
  EXPECT(CALL(hipGetProcAddress, "hipFoldSpace", &function, 700, 0, nullptr) == 0);
  EXPECT(reinterpret_cast<decltype(&::hipFoldSpace)>(function)(1, 2, 3, 4, 5, 6, 7, 8, 9, 10.5) == 55);
  EXPECT(CALL(hipGetProcAddress, "hipNobodyHasThis", &function, 700, 0, nullptr) == 500);
  tell();
}
#else
int main() {
  calls();
  tell();
}
#endif
