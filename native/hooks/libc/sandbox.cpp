// A program that enters a sandbox (seccomp): from then on the kernel may kill it for a system call of ours that its filter does not allow.
// So this process's recording ends first. We do not see a filter that was there before the program: it must allow our
// calls. Ticks notice a filter that a program installs without libc (sampler/signals).
//
// Both functions are called for much else: then they are a jump to the real one, with every argument where the caller put it.
#include "base/clock.hpp"
#include "collector.hpp"
#include "hooks/libc/dlsym.hpp"
#include "hooks/libc/identity.hpp"
#include "hooks/libc/resolve.hpp"
#include "hooks/shared/exported.hpp"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace aiflame::hooks {

namespace {

Real<int(int, long, long, long, long), "prctl"> real_prctl;
Real<long(long, ...), "syscall"> real_syscall;

// Not calls that only test the kernel's abilities: a filter at a null pointer fails.
bool enters_by_prctl(int option, long mode, long filter) noexcept {
  return option == PR_SET_SECCOMP && (mode == SECCOMP_MODE_STRICT || (mode == SECCOMP_MODE_FILTER && filter));
}
bool enters_by_syscall(long number, long operation, long mode, long filter) noexcept {
  static_assert(SYS_seccomp == 317 && SYS_prctl == 157);
  if (number == SYS_prctl) return enters_by_prctl(static_cast<int>(operation), mode, filter);
  return number == SYS_seccomp && (operation == SECCOMP_SET_MODE_STRICT || (operation == SECCOMP_SET_MODE_FILTER && filter));
}

[[gnu::noinline, gnu::cold]] void entering() noexcept {
  if (!own_process()) return;
  collector::before_sandbox();
  stay_in_process();
}

// The instruction that reads the clock is about to fault, in this thread at least.
void note_clock(int option, long mode) noexcept {
  if (option == PR_SET_TSC && mode != PR_TSC_ENABLE) leave_clock_alone();
}

}  // namespace

void resolve_sandbox() noexcept { find_all(real_prctl, real_syscall); }

}  // namespace aiflame::hooks

using namespace aiflame::hooks;

// libc declares prctl() with "...": it has another name here.
AIFLAME_EXPORT int aiflame_prctl(int option, long a, long b, long c, long d) noexcept asm("prctl");
int aiflame_prctl(int option, long a, long b, long c, long d) noexcept {
  if (enters_by_prctl(option, a, b)) [[unlikely]]
    entering();
  if (option == PR_SET_TSC) [[unlikely]]
    note_clock(option, a);
  return real_prctl(option, a, b, c, d);
}

// libc's syscall(), once it has been asked for.
extern "C" {
void* aiflame_real_syscall = nullptr;
// Calls that we look at, by number.
constexpr size_t kCallNumbers = 512;
struct Watched {
  bool is[kCallNumbers] = {};
  constexpr Watched() noexcept {
    for (long number :
         {SYS_seccomp, SYS_prctl, SYS_setuid, SYS_setreuid, SYS_setresuid, SYS_chroot, SYS_pivot_root, SYS_setns, SYS_unshare, SYS_clone})
      is[number] = true;
  }
};
[[gnu::used, gnu::visibility("hidden")]] extern constexpr Watched aiflame_watched_calls{};
[[gnu::used]] void* aiflame_before_syscall(long number, long operation, long mode, long filter) noexcept {
  if (enters_by_syscall(number, operation, mode, filter)) entering();
  if (number == SYS_prctl) note_clock(static_cast<int>(operation), mode);
  before_syscall_of_identity(number, operation, mode);
  return aiflame_real_syscall = reinterpret_cast<void*>(real_syscall.find());
}
}

// Its sixth argument is on the stack, where a caller with fewer has something else, which even an equal store might disturb.
AIFLAME_EXPORT [[gnu::naked]] long aiflame_syscall(long, ...) noexcept asm("syscall");
long aiflame_syscall(long, ...) noexcept {
  asm(R"(
    cmpq $512, %rdi
    jae 2f
    leaq aiflame_watched_calls(%rip), %rax
    cmpb $0, (%rax, %rdi)
    jne 1f
2:  movq aiflame_real_syscall(%rip), %rax
    testq %rax, %rax
    je 1f
    jmp *%rax
1:  pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    subq $8, %rsp
    .cfi_adjust_cfa_offset 56
    call aiflame_before_syscall
    addq $8, %rsp
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    .cfi_adjust_cfa_offset -56
    jmp *%rax)");
}

// A program that asks libc itself for them (`ctypes.CDLL("libc.so.6").prctl`) goes past our wrappers otherwise.
extern "C" [[gnu::used, gnu::visibility("hidden")]] void* aiflame_dlsym_sandbox(void* library, const char* name) noexcept {
  void* function = real_dlsym(library, name);
  if (!function) return nullptr;
  if (function == reinterpret_cast<void*>(real_prctl.find())) return reinterpret_cast<void*>(&aiflame_prctl);
  if (function == reinterpret_cast<void*>(real_syscall.find())) return reinterpret_cast<void*>(&aiflame_syscall);
  return function;
}
