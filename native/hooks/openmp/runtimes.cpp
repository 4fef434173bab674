#include "hooks/openmp/runtimes.hpp"

#include "base/large.hpp"

#include <dlfcn.h>
#include <link.h>
#include <atomic>
#include <cstring>

namespace aiflame::openmp {

const char* const kEntryNames[ENTRIES] = {
    "GOMP_parallel",
    "GOMP_parallel_reductions",
    "GOMP_parallel_sections",
    "GOMP_parallel_loop_static",
    "GOMP_parallel_loop_dynamic",
    "GOMP_parallel_loop_guided",
    "GOMP_parallel_loop_runtime",
    "GOMP_parallel_loop_nonmonotonic_dynamic",
    "GOMP_parallel_loop_nonmonotonic_guided",
    "GOMP_parallel_loop_nonmonotonic_runtime",
    "GOMP_parallel_loop_maybe_nonmonotonic_runtime",
};

namespace {

constexpr uint32_t kRuntimes = 16;
AIFLAME_LARGE Runtime runtimes[kRuntimes];
std::atomic<uint32_t> known{0};
std::atomic<bool> adding{false};

// Return address << 8 | place in `runtimes`: user addresses have 47 bits.
constexpr uint32_t kCallers = 256;
AIFLAME_LARGE std::atomic<uint64_t> callers[kCallers];

bool looks_like_runtime(const char* name) noexcept { return strstr(name, "gomp") || strstr(name, "libomp") || strstr(name, "iomp5"); }

bool has_entries(void* library, void* own_parallel) noexcept {
  void* parallel = library ? dlsym(library, kEntryNames[PARALLEL]) : nullptr;
  return parallel && parallel != own_parallel;
}

// Loaded libraries only: nothing is ever brought in.
void* open_loaded(const char* name, void* own_parallel) noexcept {
  void* library = dlopen(name, RTLD_NOLOAD | RTLD_LAZY);
  if (library && !has_entries(library, own_parallel)) {
    dlclose(library);
    return nullptr;
  }
  return library;
}

void* needed_by(uint64_t address, void* own_parallel) noexcept {
  Dl_info info;
  link_map* map = nullptr;
  if (!dladdr1(reinterpret_cast<void*>(address), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) || !map) return nullptr;
  const char* strings = nullptr;
  for (ElfW(Dyn)* entry = map->l_ld; entry->d_tag; entry++)
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
  if (!strings) return nullptr;
  for (ElfW(Dyn)* entry = map->l_ld; entry->d_tag; entry++) {
    if (entry->d_tag != DT_NEEDED) continue;
    const char* name = strings + entry->d_un.d_val;
    if (!looks_like_runtime(name)) continue;
    if (void* library = open_loaded(name, own_parallel)) return library;
  }
  return nullptr;
}

// For callers that found the function by other means: any runtime that is loaded.
void* any_loaded(void* own_parallel) noexcept {
  struct Search {
    void *own_parallel, *library;
  } search{own_parallel, nullptr};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* wanted = static_cast<Search*>(data);
        const char* base = strrchr(info->dlpi_name, '/');
        if (looks_like_runtime(base ? base + 1 : info->dlpi_name)) wanted->library = open_loaded(info->dlpi_name, wanted->own_parallel);
        return wanted->library ? 1 : 0;
      },
      &search);
  return search.library;
}

void find_code(Runtime& runtime) noexcept {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* wanted = static_cast<Runtime*>(data);
        auto inside = reinterpret_cast<uint64_t>(wanted->functions[PARALLEL]);
        for (int at = 0; at < info->dlpi_phnum; at++) {
          const ElfW(Phdr) & segment = info->dlpi_phdr[at];
          uint64_t low = info->dlpi_addr + segment.p_vaddr, high = low + segment.p_memsz;
          if (segment.p_type != PT_LOAD || inside < low || inside >= high) continue;
          wanted->low = low;
          wanted->high = high;
          return 1;
        }
        return 0;
      },
      &runtime);
}

// Places are never reused, so a reader needs no lock. -1: no runtime, or no more room.
int place_of(void* library) noexcept {
  void* parallel = dlsym(library, kEntryNames[PARALLEL]);
  while (adding.exchange(true, std::memory_order_acquire)) __builtin_ia32_pause();
  uint32_t count = known.load(std::memory_order_relaxed);
  int place = -1;
  for (uint32_t at = 0; at < count; at++)
    if (runtimes[at].functions[PARALLEL] == parallel) place = static_cast<int>(at);
  if (place < 0 && count < kRuntimes) {
    Runtime& runtime = runtimes[count];
    for (uint32_t entry = 0; entry < ENTRIES; entry++) runtime.functions[entry] = dlsym(library, kEntryNames[entry]);
    runtime.llvm = dlsym(library, "__kmpc_fork_call") != nullptr;
    find_code(runtime);
    place = static_cast<int>(count);
    known.store(count + 1, std::memory_order_release);
  }
  adding.store(false, std::memory_order_release);
  return place;
}

}  // namespace

const Runtime* runtime_of(uint64_t caller) noexcept {
  std::atomic<uint64_t>& slot = callers[caller * 0x9E3779B97F4A7C15u >> 56];
  uint64_t cached = slot.load(std::memory_order_acquire);
  if (cached >> 8 == caller) [[likely]]
    return &runtimes[cached & 0xff];
  // A plain lookup finds our own definition where we are preloaded.
  Dl_info self, found;
  void* own = dlsym(RTLD_DEFAULT, kEntryNames[PARALLEL]);
  if (own && !(dladdr(reinterpret_cast<void*>(&runtime_of), &self) && dladdr(own, &found) && self.dli_fbase == found.dli_fbase)) own = nullptr;
  void* library = needed_by(caller, own);
  if (!library) library = any_loaded(own);
  int place = library ? place_of(library) : -1;
  if (place < 0) return nullptr;
  slot.store(caller << 8 | static_cast<uint64_t>(place), std::memory_order_release);
  return &runtimes[place];
}

}  // namespace aiflame::openmp
