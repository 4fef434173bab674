// The library that the vendors' environment variables name. Their interfaces look up entry points with names such as `Initialize`: names
// so common that the preloaded collector must not export them, or it would answer calls that a program makes to functions of its own. Only
// the vendors' runtimes load this library, and it passes their calls on to the collector.
#include <dlfcn.h>
#include <cstdio>
#include <cstring>
#include <initializer_list>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// A function of the collector: preloaded, or loaded by a program that records itself (then its symbols are not global).
template <class Function>
Function* collectors(const char* name) noexcept {
  void* found = dlsym(RTLD_DEFAULT, name);
  Dl_info here;
  char path[4096];
  if (!found && dladdr(reinterpret_cast<void*>(&collectors<Function>), &here)) {
    const char* file = strrchr(here.dli_fname, '/');
    int folder = file ? static_cast<int>(file + 1 - here.dli_fname) : 0;
    if (snprintf(path, sizeof path, "%.*slibaiflame.so", folder, here.dli_fname) < static_cast<int>(sizeof path))
      if (void* collector = dlopen(path, RTLD_NOLOAD | RTLD_LAZY)) found = dlsym(collector, name);
  }
  return reinterpret_cast<Function*>(found);
}

}  // namespace

// INTEL_JIT_PROFILER64. Asked once, when the compiler starts: 0 is "nobody listens", 1 is "sampling".
EXPORT unsigned Initialize() {
  auto* listening = collectors<unsigned()>("aiflame_jit_listens");
  return listening ? listening() : 0;
}

EXPORT int NotifyEvent(unsigned event, void* data) {
  static auto* const notify = collectors<int(unsigned, void*)>("aiflame_jit_notify");
  return notify ? notify(event, data) : 1;
}

// CUDA_INJECTION64_PATH. Called by cuInit; 1 is success.
EXPORT int InitializeInjection() {
  auto* initialize = collectors<int()>("aiflame_cuda_initialize");
  return initialize ? initialize() : 1;
}

// NVTX_INJECTION64_PATH. Called once by each library that has NVTX in it; 0: it shall go on without a tool.
EXPORT int InitializeInjectionNvtx2(const void* (*get_export_table)(unsigned)) {
  auto* initialize = collectors<int(const void* (*)(unsigned))>("aiflame_nvtx_initialize");
  return initialize ? initialize(get_export_table) : 0;
}

// INTEL_LIBITTNOTIFY64. Called once by each library that has ITT in it.
EXPORT void __itt_api_init(void* client, unsigned groups) {
  if (auto* initialize = collectors<void(void*, unsigned)>("aiflame_itt_initialize")) initialize(client, groups);
}

// NCCL_PROFILER_PLUGIN. NCCL looks for the newest version of its interface that it finds here, and reads the functions before it calls any.
struct NcclProfiler {
  const char* name;
  void* functions[5];
};
extern "C" {
__attribute__((visibility("default"))) NcclProfiler ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v4, ncclProfiler_v5;
}

namespace {

int nothing() { return 0; }

__attribute__((constructor)) void fill_nccl_profilers() {
  auto* give = collectors<bool(int, NcclProfiler*)>("aiflame_nccl_plugin");
  int version = 0;
  for (NcclProfiler* profiler : {&ncclProfiler_v1, &ncclProfiler_v2, &ncclProfiler_v3, &ncclProfiler_v4, &ncclProfiler_v5}) {
    if (give && give(++version, profiler)) continue;
    profiler->name = "aiflame, which is not recording";
    for (void*& function : profiler->functions) function = reinterpret_cast<void*>(nothing);
  }
}

}  // namespace
