#include "hooks/stand_in/stand_in.hpp"

#include "hooks/libc/dlsym.hpp"
#include "hooks/shared/hip_calls.hpp"
#include "spool/control.hpp"

#include <dlfcn.h>
#include <link.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace aiflame;
using namespace aiflame::stand_in;

// The libraries, where they were preloaded.
extern "C" {
extern __attribute__((weak, visibility("default"))) Library* const aiflame_hip;
extern __attribute__((weak, visibility("default"))) Library* const aiflame_level_zero;
extern __attribute__((weak, visibility("default"))) Library* const aiflame_level_zero_extensions;
}

namespace aiflame::stand_in {

namespace {

constexpr uint32_t kUnknown = ~0u;

uint32_t place_of(const Library& library, const char* name) noexcept {
  uint32_t low = 0, high = library.count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    int order = strcmp(library.facts[middle].name, name);
    if (order == 0) return middle;
    (order < 0 ? low : high) = order < 0 ? middle + 1 : middle;
  }
  return kUnknown;
}

const char* entry(const Library& library, uint32_t at) noexcept { return library.entries + at * kEntryBytes; }

bool within(uint64_t address, uint64_t low, uint64_t high) noexcept { return address - low < high - low; }

bool ours(const Library& library, const void* address) noexcept {
  return within(reinterpret_cast<uint64_t>(address), reinterpret_cast<uint64_t>(library.entries),
                reinterpret_cast<uint64_t>(entry(library, library.count)));
}

// Paths of loaded libraries, gathered before any is opened: their list is locked meanwhile.
struct Loaded {
  const char* file;  // the beginning of the name of the wanted one; nullptr: all
  uint64_t low, high;
  size_t filled;
  char paths[1 << 16];
};

int add(dl_phdr_info* module, size_t, void* context) noexcept {
  auto* loaded = static_cast<Loaded*>(context);
  const char* path = module->dlpi_name ? module->dlpi_name : "";
  const char* slash = strrchr(path, '/');
  size_t bytes = strlen(path) + 1;
  if (bytes == 1 || loaded->filled + bytes >= sizeof loaded->paths) return 0;
  if (loaded->file && strncmp(slash ? slash + 1 : path, loaded->file, strlen(loaded->file)) != 0) return 0;
  memcpy(loaded->paths + loaded->filled, path, bytes);
  loaded->filled += bytes;
  if (!loaded->file) return 0;
  for (int at = 0; at < module->dlpi_phnum; at++) {
    const ElfW(Phdr) & segment = module->dlpi_phdr[at];
    if (segment.p_type != PT_LOAD) continue;
    uint64_t low = module->dlpi_addr + segment.p_vaddr;
    if (!loaded->low || low < loaded->low) loaded->low = low;
    if (low + segment.p_memsz > loaded->high) loaded->high = low + segment.p_memsz;
  }
  return 1;
}

// The library stays open: its functions will be called.
void* in(const char* path, const char* name) noexcept {
  void* library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  return library ? hooks::real_dlsym(library, name) : nullptr;
}

void* in_the_runtime(Library& library, const char* name, Loaded& loaded) noexcept {
  loaded.file = library.file;
  dl_iterate_phdr(add, &loaded);
  void* found = loaded.filled ? in(loaded.paths, name) : nullptr;
  if (!found || !within(reinterpret_cast<uint64_t>(found), loaded.low, loaded.high)) return nullptr;
  library.low.store(loaded.low, std::memory_order_relaxed);
  library.high.store(loaded.high, std::memory_order_relaxed);
  return found;
}

// A function of that name in another library, which the caller would get without us.
void* elsewhere(const Library& library, const char* name, Loaded& loaded) noexcept {
  memset(&loaded, 0, offsetof(Loaded, paths));
  dl_iterate_phdr(add, &loaded);
  for (const char* path = loaded.paths; path < loaded.paths + loaded.filled; path += strlen(path) + 1)
    if (void* found = in(path, name); found && !ours(library, found)) return found;
  return nullptr;
}

uint64_t find(Library& library, uint32_t at) noexcept {
  auto* loaded = static_cast<Loaded*>(calloc(1, sizeof(Loaded)));
  if (!loaded) return 0;
  const char* name = library.facts[at].name;
  auto found = reinterpret_cast<uint64_t>(in_the_runtime(library, name, *loaded));
  if (!found) {
    found = reinterpret_cast<uint64_t>(elsewhere(library, name, *loaded));
    if (found) found |= kForeign;
  }
  free(loaded);
  library.behind[at].store(found, std::memory_order_release);
  return found;
}

uint64_t behind(Library& library, uint32_t at) noexcept {
  uint64_t known = library.behind[at].load(std::memory_order_acquire);
  return known ? known : find(library, at);
}

// Ours, if the function is the runtime's own of that name: a driver or a layer beneath it may have functions of the same names.
void* instead_of(Library& library, void* found, const char* name) noexcept {
  uint32_t at = place_of(library, name);
  if (at == kUnknown || ours(library, found)) return nullptr;
  // Only in a file with the runtime's name: a runtime that is not there now may be loaded later.
  Dl_info module;
  if (!dladdr(found, &module) || !module.dli_fname) return nullptr;
  const char* slash = strrchr(module.dli_fname, '/');
  if (strncmp(slash ? slash + 1 : module.dli_fname, library.file, strlen(library.file)) != 0) return nullptr;
  if (behind(library, at) != reinterpret_cast<uint64_t>(found)) return nullptr;
  return const_cast<char*>(entry(library, at));
}

uint64_t bytes_of(const Fact& fact, const Frame& frame) noexcept {
  if (fact.bytes < 0) return 0;
  return frame.word(static_cast<size_t>(fact.bytes)) * (fact.times < 0 ? 1 : frame.word(static_cast<size_t>(fact.times))) * fact.scale;
}

calls::Outcome outcome_of(const Library& library, const Fact& fact, uint64_t result, const Frame& frame) noexcept {
  if (fact.answer == Answer::NOTHING) return {};
  if (fact.answer == Answer::OBJECT) return {.failed = result == 0};
  auto code = static_cast<uint32_t>(result);
  bool failed = code != 0 && code != library.not_ready;
  return {.result = static_cast<int32_t>(code), .failed = failed, .bytes = failed ? 0 : bytes_of(fact, frame)};
}

Words words_of(const Frame& frame) noexcept {
  Words words;
  for (size_t at = 0; at < words.size(); at++) words[at] = frame.word(at);
  return words;
}

// A call of which nothing is changed.
uint64_t forward(Real* real, const Frame& frame) {
  const uint64_t *in = frame.registers, *on = frame.stack;
  return real(in[0], in[1], in[2], in[3], in[4], in[5], on[0], on[1], on[2], on[3], on[4], on[5], on[6], on[7], frame.floats[0], frame.floats[1]);
}

}  // namespace

void* instead_of(void* found, const char* name) noexcept {
  if (&aiflame_hip && strncmp(name, aiflame_hip->prefix, strlen(aiflame_hip->prefix)) == 0)
    if (void* answer = instead_of(*aiflame_hip, found, name)) return answer;
  if (&aiflame_level_zero && strncmp(name, aiflame_level_zero->prefix, strlen(aiflame_level_zero->prefix)) == 0)
    if (void* answer = instead_of(*aiflame_level_zero, found, name)) return answer;
  return found;
}

void* instead_of_extension(void* found, const char* name) noexcept {
  if (!&aiflame_level_zero_extensions || !found) return found;
  Library& library = *aiflame_level_zero_extensions;
  uint32_t at = place_of(library, name);
  if (at == kUnknown || ours(library, found)) return found;
  auto address = reinterpret_cast<uint64_t>(found);
  uint64_t there = 0;
  library.behind[at].compare_exchange_strong(there, address, std::memory_order_acq_rel);
  return there == 0 || there == address ? const_cast<char*>(entry(library, at)) : found;
}

Library& level_zero_loader(Library& called) noexcept { return &aiflame_level_zero ? *aiflame_level_zero : called; }

Real* Library::real(const char* name) noexcept {
  uint32_t at = place_of(*this, name);
  uint64_t known = at == kUnknown ? 0 : stand_in::behind(*this, at);
  return known & kForeign ? nullptr : reinterpret_cast<Real*>(known);
}

// hipGetProcAddress(name, &function, …): it may return another function than the named one, of another version or stream.
uint64_t watch_hip(Call& call) {
  uint64_t result = call.go();
  auto* name = reinterpret_cast<const char*>(call.words[0]);
  auto** function = reinterpret_cast<void**>(call.words[1]);
  if (static_cast<uint32_t>(result) != 0 || !name || !function || !*function) return result;
  for (const char* ending : {"", "_spt", "R0600", "R0000"}) {
    char full[128];
    if (snprintf(full, sizeof full, "%s%s", name, ending) >= static_cast<int>(sizeof full)) break;
    void* ours = instead_of(call.library, *function, full);
    if (!ours) continue;
    *function = ours;
    break;
  }
  return result;
}

}  // namespace aiflame::stand_in

// Not noexcept: a callback into the program may throw.
uint64_t aiflame_stand_in(Frame* frame, Library* library, uint32_t at) {
  uint64_t real = behind(*library, at);
  if (!real) return library->unknown;
  auto* function = reinterpret_cast<Real*>(real & ~kForeign);
  // The runtime's own calls of its functions are none of the program's.
  bool inside = within(frame->pc, library->low.load(std::memory_order_relaxed), library->high.load(std::memory_order_relaxed));
  if (inside || real & kForeign || !control::has(library->feature)) return forward(function, *frame);
  const Fact& fact = library->facts[at];
  // rocprofiler may report this call, too, even if it is not there yet.
  uint32_t heard = hooks::hip_calls_heard;
  calls::Begun begun = calls::begin(frame->caller(), calls::Stack::ON_REQUEST);
  uint64_t result;
  if (!fact.watch) {
    result = forward(function, *frame);
  } else {
    Call call{*library, fact, function, *frame, words_of(*frame)};
    result = library->backend == schema::CallBackend::HIP ? watch_hip(call) : watch_level_zero(call);
  }
  if (hooks::hip_calls_heard == heard) calls::end(begun, library->functions[at], outcome_of(*library, fact, result, *frame));
  return result;
}

extern "C" __attribute__((visibility("hidden"), used)) void* aiflame_dlsym_stand_in(void* library, const char* name) noexcept {
  void* found = aiflame::hooks::real_dlsym(library, name);
  void* answer = found ? aiflame::stand_in::instead_of(found, name) : nullptr;
  if (answer && answer != found) aiflame::hooks::real_dlsym(library, name);  // dlerror() is to be as after a look-up that succeeded
  return answer;
}
