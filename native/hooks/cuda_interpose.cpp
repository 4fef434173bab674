// How others' calls to CUPTI reach cuda_sharing.cpp. Who is linked with CUPTI (torch) finds the functions that we export. Who looks them
// up by itself (Proton) does so with dlsym(), which we stand in front of: an address that it would give for one of these functions is
// replaced by our wrapper's; every other look-up is libc's own, as if called by the caller.
#include "hooks/cuda_sharing.hpp"
#include "hooks/late_binding.hpp"

#include <dlfcn.h>
#include <link.h>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

using Dlsym = void*(void* library, const char* name);

extern "C" {
// libc's dlsym, or that of another library which stands in front of it; nullptr until first asked for.
__attribute__((visibility("hidden"))) constinit std::atomic<Dlsym*> aiflame_real_dlsym{nullptr};
__attribute__((visibility("hidden"), used)) void aiflame_find_dlsym() noexcept;
__attribute__((visibility("hidden"), used)) void* aiflame_dlsym_cupti(void* library, const char* name) noexcept;
}

// dlsym(): exported under that name by the linker (native/CMakeLists.txt). It keeps its caller's return address where it is, since
// RTLD_NEXT and RTLD_DEFAULT mean the library that this address lies in; only "cupti…" of a library that was asked for goes another way.
asm(R"(
  .pushsection .text
  .globl aiflame_dlsym
  .type aiflame_dlsym, @function
  .p2align 4
aiflame_dlsym:
  .cfi_startproc
  endbr64
  lea 1(%rdi), %rax
  cmp $1, %rax
  jbe 1f
  test %rsi, %rsi
  jz 1f
  cmpb $'c', (%rsi)
  jne 1f
  cmpb $'u', 1(%rsi)
  jne 1f
  cmpb $'p', 2(%rsi)
  jne 1f
  cmpb $'t', 3(%rsi)
  jne 1f
  cmpb $'i', 4(%rsi)
  je aiflame_dlsym_cupti
1:
  mov aiflame_real_dlsym(%rip), %rax
  test %rax, %rax
  jz 2f
  jmp *%rax
2:
  push %rdi
  .cfi_adjust_cfa_offset 8
  push %rsi
  .cfi_adjust_cfa_offset 8
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  call aiflame_find_dlsym
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  pop %rsi
  .cfi_adjust_cfa_offset -8
  pop %rdi
  .cfi_adjust_cfa_offset -8
  jmp 1b
  .cfi_endproc
  .size aiflame_dlsym, . - aiflame_dlsym
  .popsection
)");

void aiflame_find_dlsym() noexcept {
  // libc has this version for every program, new or old.
  auto libcs = reinterpret_cast<Dlsym*>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  void* next = libcs(RTLD_NEXT, "dlsym");
  aiflame_real_dlsym.store(next ? reinterpret_cast<Dlsym*>(next) : libcs, std::memory_order_release);
}

namespace aiflame::cuda::sharing {

namespace {

void* real_dlsym(void* library, const char* name) noexcept {
  if (!aiflame_real_dlsym.load(std::memory_order_acquire)) aiflame_find_dlsym();
  return aiflame_real_dlsym.load(std::memory_order_acquire)(library, name);
}

// A copy of CUPTI in the process, for those who found it by themselves; the last place is that of the copy that others are linked with.
constexpr uint32_t kMostCopies = 4, kLinked = kMostCopies;
constinit Real copies[kMostCopies + 1]{};
constinit std::atomic<const void*> libraries[kMostCopies]{};

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

// Fills what is known of a copy by looking up all: a call may come for one function before another was asked for.
void fill(Real& real, void* library) noexcept {
#define AIFLAME_FILL(function) put(real, offsetof(Real, function), real_dlsym(library, "cupti" #function));
  AIFLAME_SHARED_CUPTI(AIFLAME_FILL)
#undef AIFLAME_FILL
}

// The place of the copy that a function belongs to; kMostCopies when there is none left.
uint32_t copy_of(const void* base, void* library) noexcept {
  for (uint32_t copy = 0; copy < kMostCopies; copy++) {
    const void* there = libraries[copy].load(std::memory_order_acquire);
    if (there == base) return copy;
    if (there) continue;
    Real real{};
    fill(real, library);
    real.library = base;
    copies[copy] = real;  // two that come at once write the same, or one of them comes again
    if (libraries[copy].compare_exchange_strong(there, base, std::memory_order_acq_rel) || there == base) return copy;
    copy--;
  }
  return kMostCopies;
}

int find_cupti(dl_phdr_info* info, size_t, void* found) {
  const char* slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : nullptr;
  if (!std::string_view(slash ? slash + 1 : "").starts_with("libcupti.so")) return 0;
  *static_cast<void**>(found) = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  return *static_cast<void**>(found) != nullptr;
}

// The copy that linked callers were bound to before us: the first that the process loaded.
const Real& linked() noexcept {
  static std::atomic<bool> known{false};
  if (!known.load(std::memory_order_acquire)) {
    void* library = nullptr;
    dl_iterate_phdr(find_cupti, &library);
    if (library) {
      fill(copies[kLinked], library);
      known.store(true, std::memory_order_release);
    }
  }
  return copies[kLinked];
}

}  // namespace

void* function(void* library, const char* name) noexcept { return real_dlsym(library, name); }

}  // namespace aiflame::cuda::sharing

using namespace aiflame::cuda;
using namespace aiflame::cuda::sharing;

void* aiflame_dlsym_cupti(void* library, const char* name) noexcept {
  void* found = real_dlsym(library, name);
  Dl_info module, own;
  if (!found || !dladdr(found, &module) || !dladdr(reinterpret_cast<void*>(&aiflame_dlsym_cupti), &own) || module.dli_fbase == own.dli_fbase)
    return found;
  if (!wrapper_of(name, 0)) return found;
  uint32_t copy = copy_of(module.dli_fbase, library);
  return copy < kMostCopies ? wrapper_of(name, copy) : found;
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
