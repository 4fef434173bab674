// How other tools' calls to CUPTI reach sharing.cpp. A library that is linked with CUPTI (torch) is bound to the functions that we export.
// A tool that looks them up by itself (Proton) does so with dlsym() (hooks/libc/dlsym), which returns our wrapper's address instead.
//
// The driver serves one copy of CUPTI a process, the first that subscribes, and for good. A tool that brings a copy of its own (Proton
// does) gets functions of our copy from dlsym(). A tool that had functions of another copy before we loaded ours keeps them, and we use
// that copy too.
#include "base/large.hpp"
#include "hooks/cuda/cupti_api.hpp"
#include "hooks/cuda/sharing.hpp"
#include "hooks/libc/dlsym.hpp"
#include "hooks/shared/late_binding.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

extern "C" __attribute__((visibility("hidden"), used)) void* aiflame_dlsym_cupti(void* library, const char* name) noexcept;

namespace aiflame::cuda::sharing {

namespace {

// The copies of CUPTI in the process that somebody has looked functions up in; the last place is that of the copy that others are linked
// with. A place is taken by its address and can be read once it is decided whose functions its users get.
constexpr uint32_t kMostCopies = 4, kLinked = kMostCopies;
enum class Use : uint8_t { UNDECIDED, ITS_OWN, OURS };
AIFLAME_LARGE constinit Real copies[kMostCopies + 1]{};
constinit std::atomic<const void*> bases[kMostCopies]{};
constinit std::atomic<Use> uses[kMostCopies]{};

template <auto kWrapper, uint32_t kCopy>
struct Thunk;
template <class... Arguments, CUptiResult (*kWrapper)(Call, Arguments...) noexcept, uint32_t kCopy>
struct Thunk<kWrapper, kCopy> {
  static CUptiResult CUPTIAPI run(Arguments... arguments) { return kWrapper({copies[kCopy], __builtin_return_address(0)}, arguments...); }
};

template <auto kWrapper, size_t... kCopies>
void* thunk_of(uint32_t copy, std::index_sequence<kCopies...>) noexcept {
  constexpr decltype(&Thunk<kWrapper, 0>::run) thunks[] = {Thunk<kWrapper, kCopies>::run...};
  return reinterpret_cast<void*>(thunks[copy]);
}

// The wrapper of a function of a copy; nullptr for one that we leave alone.
void* wrapper_of(std::string_view name, uint32_t copy) noexcept {
#define AIFLAME_THUNK(function) \
  if (name == "cupti" #function) return thunk_of<&function>(copy, std::make_index_sequence<kMostCopies>());
  AIFLAME_SHARED_CUPTI(AIFLAME_THUNK)
#undef AIFLAME_THUNK
  return nullptr;
}

void put(Real& real, size_t place, void* function) noexcept { memcpy(reinterpret_cast<char*>(&real) + place, &function, sizeof function); }

// Looks up all functions of a copy at once: the program may call one function before it has looked up another.
void fill(Real& real, void* library) noexcept {
#define AIFLAME_FILL(function) put(real, offsetof(Real, function), hooks::real_dlsym(library, "cupti" #function));
  AIFLAME_SHARED_CUPTI(AIFLAME_FILL)
#undef AIFLAME_FILL
}

// The library at an address, and its base address. It stays loaded, so that the pointers into it stay valid.
void* keep(const void* address, const void** base) noexcept {
  Dl_info module{};
  if (!dladdr(address, &module)) return nullptr;
  *base = module.dli_fbase;
  return dlopen(module.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

const void* base_of(const void* address) noexcept {
  Dl_info module{};
  return dladdr(address, &module) ? module.dli_fbase : nullptr;
}

const void* address_of(auto* function) noexcept { return reinterpret_cast<const void*>(function); }

// Its functions belong together, or the next best library that has one of that name would pass for a CUPTI.
bool is_cupti(const Real& real, const void* base) noexcept {
  return real.Subscribe && real.ActivityEnable && real.ActivityRegisterCallbacks && base_of(address_of(real.Subscribe)) == base &&
         base_of(address_of(real.ActivityEnable)) == base;
}

// The place of the copy that a function belongs to; kMostCopies when it is none, or none is left.
uint32_t copy_of(const void* function) noexcept {
  const void* base = base_of(function);
  Real real{};
  for (uint32_t copy = 0; base && copy < kMostCopies; copy++) {
    const void* there = bases[copy].load(std::memory_order_acquire);
    // All look-ups come before the place is taken: a thread that waits for it may hold the dynamic linker's lock.
    if (!there && !real.library) {
      void* library = keep(function, &base);
      if (!library) return kMostCopies;
      fill(real, library);
      if (!is_cupti(real, base)) {
        dlclose(library);
        return kMostCopies;
      }
      real.library = library;
    }
    if (!there && bases[copy].compare_exchange_strong(there, base, std::memory_order_acq_rel)) {
      copies[copy] = real;
      bool other = cupti().version && base_of(address_of(cupti().GetVersion)) != base;
      uses[copy].store(other ? Use::OURS : Use::ITS_OWN, std::memory_order_release);
      return copy;
    }
    if (there != base) continue;
    for (uint32_t turns = 0; uses[copy].load(std::memory_order_acquire) == Use::UNDECIDED; turns++) {
      if (turns == 1000) return kMostCopies;  // a fork took who was at it
      sched_yield();
    }
    return copy;
  }
  return kMostCopies;
}

struct Search {
  char path[4096];
};

// The library is opened after the search: the search holds a lock that opening must take after another.
int find_cupti(dl_phdr_info* info, size_t, void* data) {
  const char* slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : nullptr;
  auto* search = static_cast<Search*>(data);
  if (!std::string_view(slash ? slash + 1 : "").starts_with("libcupti.so") || strlen(info->dlpi_name) >= sizeof search->path) return 0;
  strcpy(search->path, info->dlpi_name);
  return 1;
}

// The copy that linked callers were bound to before us: the first that the process loaded.
const Real& linked() noexcept {
  static std::atomic<bool> known{false};
  if (!known.load(std::memory_order_acquire)) {
    Search search;
    void* library = dl_iterate_phdr(find_cupti, &search) ? dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    if (library) {
      fill(copies[kLinked], library);
      known.store(true, std::memory_order_release);
    }
  }
  return copies[kLinked];
}

// The address that dlsym() returns in place of a function that it found.
void* instead_of(void* found, const char* name) noexcept {
  uint32_t copy = copy_of(found);
  if (copy == kMostCopies) return found;
  if (uses[copy].load(std::memory_order_acquire) == Use::OURS) {
    uint32_t ours = copy_of(address_of(cupti().GetVersion));
    if (ours == kMostCopies) return nullptr;
    // Last, so that dlerror() reports the function that our copy lacks.
    found = hooks::real_dlsym(const_cast<void*>(copies[ours].library), name);
    copy = ours;
  }
  void* wrapper = found ? wrapper_of(name, copy) : nullptr;
  return wrapper ? wrapper : found;
}

}  // namespace

void* copy_of_others() noexcept {
  for (uint32_t copy = 0; copy < kMostCopies; copy++)
    if (uses[copy].load(std::memory_order_acquire) == Use::ITS_OWN) return const_cast<void*>(copies[copy].library);
  return nullptr;
}

}  // namespace aiflame::cuda::sharing

using namespace aiflame::cuda;
using namespace aiflame::cuda::sharing;

void* aiflame_dlsym_cupti(void* library, const char* name) noexcept {
  void* found = aiflame::hooks::real_dlsym(library, name);
  if (!found || base_of(found) == base_of(address_of(&aiflame_dlsym_cupti))) return found;
  void* answer = instead_of(found, name);
  // Our own look-ups have changed the text of dlerror(): a look-up that succeeds clears it again.
  if (answer) aiflame::hooks::real_dlsym(library, name);
  return answer;
}

#define AIFLAME_LINKED(function, declared, passed)                                                  \
  extern "C" __attribute__((visibility("default"))) CUptiResult CUPTIAPI cupti##function declared { \
    const Real& real = linked();                                                                    \
    if (!real.function) return CUPTI_ERROR_NOT_INITIALIZED;                                         \
    return sharing::function passed;                                                                \
  }
#define AIFLAME_CALL {real, __builtin_return_address(0)}
AIFLAME_LINKED(Subscribe, (CUpti_SubscriberHandle * subscriber, CUpti_CallbackFunc callback, void* data), (AIFLAME_CALL, subscriber, callback, data))
AIFLAME_LINKED(Subscribe_v2, (CUpti_SubscriberHandle * subscriber, CUpti_CallbackFunc callback, void* data, CUpti_SubscriberParams* params),
               (AIFLAME_CALL, subscriber, callback, data, params))
AIFLAME_LINKED(Unsubscribe, (CUpti_SubscriberHandle subscriber), (AIFLAME_CALL, subscriber))
AIFLAME_LINKED(Finalize, (), (AIFLAME_CALL))
AIFLAME_LINKED(ActivityRegisterCallbacks, (CUpti_BuffersCallbackRequestFunc request, CUpti_BuffersCallbackCompleteFunc complete),
               (AIFLAME_CALL, request, complete))
AIFLAME_LINKED(ActivityRegisterTimestampCallback, (CUpti_TimestampCallbackFunc clock), (AIFLAME_CALL, clock))
AIFLAME_LINKED(ActivityEnable, (CUpti_ActivityKind kind), (AIFLAME_CALL, kind))
AIFLAME_LINKED(ActivityEnableAndDump, (CUpti_ActivityKind kind), (AIFLAME_CALL, kind))
AIFLAME_LINKED(ActivityEnableContext, (CUcontext context, CUpti_ActivityKind kind), (AIFLAME_CALL, context, kind))
AIFLAME_LINKED(ActivityDisable, (CUpti_ActivityKind kind), (AIFLAME_CALL, kind))
AIFLAME_LINKED(ActivityDisableContext, (CUcontext context, CUpti_ActivityKind kind), (AIFLAME_CALL, context, kind))

namespace aiflame::cuda::sharing {

namespace {

void* ours(const char* name) noexcept {
#define AIFLAME_OURS(function) \
  if (strcmp(name, "cupti" #function) == 0) return reinterpret_cast<void*>(&cupti##function);
  AIFLAME_SHARED_CUPTI(AIFLAME_OURS)
#undef AIFLAME_OURS
  return nullptr;
}

}  // namespace

void lead_callers() noexcept { hooks::lead_callers("cupti", ours); }

}  // namespace aiflame::cuda::sharing
