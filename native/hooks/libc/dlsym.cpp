// dlsym(), which every look-up by name in the process goes through: a few names get a function of ours, every other look-up is libc's own, as
// if called by the caller.
#include "hooks/libc/dlsym.hpp"

#include "base/moved_functions.hpp"

#include <dlfcn.h>
#include <atomic>

using Dlsym = void*(void* library, const char* name);

extern "C" {
// libc's dlsym, or that of another library which stands in front of it; nullptr until first asked for.
__attribute__((visibility("hidden"))) constinit std::atomic<Dlsym*> aiflame_real_dlsym{nullptr};
__attribute__((visibility("hidden"), used)) void aiflame_find_dlsym() noexcept;
}

// dlsym(): exported under that name by the linker (native/CMakeLists.txt). It keeps its caller's return address where it is, since RTLD_NEXT and
// RTLD_DEFAULT mean the library that this address lies in. Look-ups of four kinds of names in a given library go another way: "cupti…"
// (hooks/cuda/interpose.cpp); "ze…" and "hip…", which a library of ours may stand in for (hooks/stand_in); and the two functions by which sandboxes
// are entered (sandbox.cpp). By RTLD_DEFAULT, "rocp…" asks for tools of rocprofiler (hooks/rocprofiler).
asm(R"(
  .pushsection .text
  .globl aiflame_dlsym
  .type aiflame_dlsym, @function
  .p2align 4
aiflame_dlsym:
  .cfi_startproc
  endbr64
  test %rdi, %rdi
  jz 7f
  lea 1(%rdi), %rax
  cmp $1, %rax
  jbe 1f
  test %rsi, %rsi
  jz 1f
  cmpb $'z', (%rsi)
  je 3f
  cmpb $'h', (%rsi)
  je 4f
  cmpb $'p', (%rsi)
  je 5f
  cmpb $'s', (%rsi)
  je 6f
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
3:
  cmpb $'e', 1(%rsi)
  je aiflame_dlsym_stand_in
  jmp 1b
4:
  cmpb $'i', 1(%rsi)
  jne 1b
  cmpb $'p', 2(%rsi)
  je aiflame_dlsym_stand_in
  jmp 1b
5:
  cmpb $'r', 1(%rsi)
  jne 1b
  cmpb $'c', 2(%rsi)
  je aiflame_dlsym_sandbox
  jmp 1b
6:
  cmpb $'y', 1(%rsi)
  jne 1b
  cmpb $'s', 2(%rsi)
  je aiflame_dlsym_sandbox
  jmp 1b
7:
  test %rsi, %rsi
  jz 1b
  cmpb $'r', (%rsi)
  jne 1b
  cmpb $'o', 1(%rsi)
  jne 1b
  cmpb $'c', 2(%rsi)
  jne 1b
  cmpb $'p', 3(%rsi)
  jne 1b
  mov (%rsp), %rdx
  push %rdi
  .cfi_adjust_cfa_offset 8
  push %rsi
  .cfi_adjust_cfa_offset 8
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  mov %rsi, %rdi
  mov %rdx, %rsi
  call aiflame_dlsym_rocprofiler
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  pop %rsi
  .cfi_adjust_cfa_offset -8
  pop %rdi
  .cfi_adjust_cfa_offset -8
  test %rax, %rax
  jz 1b
  ret
  .cfi_endproc
  .size aiflame_dlsym, . - aiflame_dlsym
  .popsection
)");

void aiflame_find_dlsym() noexcept {
  // libc has this version for every program, new or old.
  auto libcs = reinterpret_cast<Dlsym*>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  if (!libcs) libcs = reinterpret_cast<Dlsym*>(aiflame::moved::find("dlsym"));
  void* next = libcs(RTLD_NEXT, "dlsym");
  aiflame_real_dlsym.store(next ? reinterpret_cast<Dlsym*>(next) : libcs, std::memory_order_release);
}

namespace aiflame::hooks {

void* real_dlsym(void* library, const char* name) noexcept {
  if (!aiflame_real_dlsym.load(std::memory_order_acquire)) aiflame_find_dlsym();
  return aiflame_real_dlsym.load(std::memory_order_acquire)(library, name);
}

}  // namespace aiflame::hooks
