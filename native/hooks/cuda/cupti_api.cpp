#include "hooks/cuda/cupti_api.hpp"

#include "base/large.hpp"
#include "hooks/cuda/sharing.hpp"
#include "hooks/libc/dlsym.hpp"
#include "spool/spool.hpp"

#include <dlfcn.h>
#include <link.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace aiflame::cuda {

namespace {

AIFLAME_LARGE Cupti table;

// All that we ask of the driver.
constexpr char kDriverNames[][34] = {"cuInit",
                                     "cuDriverGetVersion",
                                     "cuDeviceGetCount",
                                     "cuDeviceGetName",
                                     "cuDeviceGetPCIBusId",
                                     "cuDeviceGetUuid",
                                     "cuDeviceGetUuid_v2",
                                     "cuDeviceGetAttribute",
                                     "cuDevicePrimaryCtxGetState",
                                     "cuDevicePrimaryCtxRetain",
                                     "cuDevicePrimaryCtxRelease_v2",
                                     "cuThreadExchangeStreamCaptureMode"};
constexpr uint32_t kDriverFunctions = sizeof kDriverNames / sizeof *kDriverNames;
constinit std::atomic<void*> driver_table[kDriverFunctions]{};

// The newest first; if the process has loaded a copy already, that one is used, of either version.
constexpr const char* kFileNames[] = {"libcupti.so.13", "libcupti.so.12"};
constexpr uint32_t kOldest = 18;  // CUPTI_API_VERSION of CUDA 12.0

template <class... Parts>
void* open_at(int flags, const char* format, Parts... parts) noexcept {
  char path[4096];
  if (snprintf(path, sizeof path, format, parts...) >= static_cast<int>(sizeof path)) return nullptr;
  return dlopen(path, flags);
}

struct Loaded {
  char cupti[4096];     // path of a CUPTI in the process
  char runtime[4096];   // folder of the CUDA runtime
  char packages[4096];  // folder of Python packages that something was loaded from
};

int look_at(dl_phdr_info* info, size_t, void* data) {
  auto* loaded = static_cast<Loaded*>(data);
  std::string_view path = info->dlpi_name ? info->dlpi_name : "";
  if (path.size() >= sizeof loaded->cupti) return 0;
  size_t file = path.rfind('/') + 1;
  auto keep = [&](char* where, size_t bytes) {
    if (*where) return;
    memcpy(where, path.data(), bytes);
    where[bytes] = 0;
  };
  // substr() may throw, which would bring all of libstdc++'s unwinder into the library.
  std::string_view name(path.data() + file, path.size() - file);
  if (name.starts_with("libcupti.so")) keep(loaded->cupti, path.size());
  if (name.starts_with("libcudart.so")) keep(loaded->runtime, file);
  for (std::string_view packages : {"/site-packages/", "/dist-packages/"})
    if (size_t at = path.find(packages); at != path.npos) keep(loaded->packages, at + packages.size());
  return 0;
}

// A CUPTI works with drivers of its own major version and newer ones.
bool suits_driver(const char* version) noexcept {
  auto get = reinterpret_cast<int (*)(int*)>(driver_function("cuDriverGetVersion"));
  int driver = 0;
  return !get || get(&driver) != 0 || atoi(version) * 1000 <= driver;
}

void* find() noexcept {
  constexpr int kFlags = RTLD_LAZY | RTLD_LOCAL;
  if (const char* chosen = getenv("AIFLAME_CUPTI")) return dlopen(chosen, kFlags);
  if (void* taken = sharing::copy_of_others()) return taken;
  AIFLAME_LARGE static Loaded loaded;
  dl_iterate_phdr(look_at, &loaded);
  if (*loaded.cupti)
    if (void* found = dlopen(loaded.cupti, kFlags | RTLD_NOLOAD)) return found;
  for (const char* file : kFileNames) {
    const char* version = strrchr(file, '.') + 1;
    if (!suits_driver(version)) continue;
    void* found = nullptr;
    if (*loaded.runtime) {
      found = open_at(kFlags, "%s%s", loaded.runtime, file);
      if (!found) found = open_at(kFlags, "%s../../cuda_cupti/lib/%s", loaded.runtime, file);
      if (!found) found = open_at(kFlags, "%s../extras/CUPTI/lib64/%s", loaded.runtime, file);
    }
    if (!found && *loaded.packages) {
      found = open_at(kFlags, "%snvidia/cu%s/lib/%s", loaded.packages, version, file);
      if (!found) found = open_at(kFlags, "%snvidia/cuda_cupti/lib/%s", loaded.packages, file);
      if (!found) found = open_at(kFlags, "%striton/backends/nvidia/lib/cupti/%s", loaded.packages, file);
    }
    for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
      if (const char* home = getenv(variable); home && !found) found = open_at(kFlags, "%s/extras/CUPTI/lib64/%s", home, file);
    if (!found) found = dlopen(file, kFlags);
    if (!found) found = open_at(kFlags, "/usr/local/cuda/extras/CUPTI/lib64/%s", file);
    if (found) return found;
  }
  return nullptr;
}

}  // namespace

const Cupti& cupti() noexcept { return table; }

bool load_cupti() noexcept {
  if (table.version) return true;
  find_driver();
  void* library = find();
  if (!library) {
    spool::note("CUPTI was not found: GPU kernels are not recorded; mend it with: pip install nvidia-cuda-cupti");
    return false;
  }
  bool whole = true;
#define AIFLAME_FIND(name) table.name = reinterpret_cast<decltype(table.name)>(hooks::real_dlsym(library, "cupti" #name));
#define AIFLAME_NEED(name) whole = whole && table.name;
  AIFLAME_CUPTI_FUNCTIONS(AIFLAME_FIND)
  AIFLAME_CUPTI_OPTIONAL(AIFLAME_FIND)
  AIFLAME_CUPTI_FUNCTIONS(AIFLAME_NEED)
#undef AIFLAME_FIND
#undef AIFLAME_NEED
  uint32_t version = 0;
  if (!whole || table.GetVersion(&version) != CUPTI_SUCCESS || version < kOldest) {
    spool::note("CUPTI is older than CUDA 12.0: GPU kernels are not recorded; mend it with: pip install nvidia-cuda-cupti");
    return false;
  }
  table.version = version;
  return true;
}

const char* reason(CUptiResult result) noexcept {
  const char* text = nullptr;
  return table.GetResultString(result, &text) == CUPTI_SUCCESS && text ? text : "unknown error";
}

bool worked(CUptiResult result, const char* what) noexcept {
  if (result == CUPTI_SUCCESS) return true;
  char text[256];
  int length = snprintf(text, sizeof text, "CUDA: %s failed: %s", what, reason(result));
  spool::note({text, length < static_cast<int>(sizeof text) ? static_cast<size_t>(length) : sizeof text - 1});
  return false;
}

void* driver_function(const char* name) noexcept {
  for (uint32_t i = 0; i < kDriverFunctions; i++)
    if (!strcmp(name, kDriverNames[i])) return driver_table[i].load(std::memory_order_acquire);
  return nullptr;
}

void find_driver() noexcept {
  // Where it is not loaded, dlopen() would look for its file in every folder first, also with RTLD_NOLOAD.
  auto is_driver = [](dl_phdr_info* info, size_t, void*) {
    const char* name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : nullptr;
    return static_cast<int>(std::string_view(name ? name + 1 : info->dlpi_name ? info->dlpi_name : "").starts_with("libcuda.so"));
  };
  if (!dl_iterate_phdr(is_driver, nullptr)) return;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return;
  for (uint32_t i = 0; i < kDriverFunctions; i++) driver_table[i].store(dlsym(driver, kDriverNames[i]), std::memory_order_release);
  dlclose(driver);
}

}  // namespace aiflame::cuda
