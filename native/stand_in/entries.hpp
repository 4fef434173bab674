// The names that a library exports: 16 bytes of code each, which say which function it is and leave the arguments where they are.
//
//     asm(AIFLAME_ENTRIES_BEGIN
//     #define NAME AIFLAME_ENTRY
//     #include "stand_in/hip.inc"
//     #undef NAME
//         AIFLAME_ENTRIES_END);
#pragma once
#include "hooks/stand_in/stand_in.hpp"

#include <cstddef>

static_assert(offsetof(aiflame::stand_in::Frame, floats) == 48 && offsetof(aiflame::stand_in::Frame, bp) == 64);
static_assert(aiflame::stand_in::kEntryBytes == 16);

// The symbols of a library's description of itself, and of its first entry.
#ifndef AIFLAME_LIBRARY
#define AIFLAME_LIBRARY "aiflame_library"
#define AIFLAME_ENTRIES "aiflame_entries"
#endif

// An entry that no name leads to.
#define AIFLAME_HIDDEN_ENTRY(name) \
  ".p2align 4\n"                   \
  "endbr64\n"                      \
  "movl $aiflame_number, %eax\n"   \
  "jmp aiflame_enter\n"            \
  ".set aiflame_number, aiflame_number + 1\n"

// The assembler counts the numbers of functions.
#define AIFLAME_ENTRY(name)        \
  ".globl " #name "\n.type " #name \
  ", @function\n"                  \
  ".p2align 4\n" #name             \
  ":\n"                            \
  "endbr64\n"                      \
  "movl $aiflame_number, %eax\n"   \
  "jmp aiflame_enter\n"            \
  ".set aiflame_number, aiflame_number + 1\n"

// One range of unwind information for all: none moves the stack pointer.
#define AIFLAME_ENTRIES_BEGIN    \
  ".text\n"                      \
  ".p2align 4\n" AIFLAME_ENTRIES \
  ":\n"                          \
  ".globl " AIFLAME_ENTRIES      \
  "\n"                           \
  ".hidden " AIFLAME_ENTRIES     \
  "\n"                           \
  ".cfi_startproc\n"             \
  ".set aiflame_number, 0\n"

// Builds a Frame. Without the collector (which is preloaded, too), the function has nothing to call.
#define AIFLAME_ENTRIES_END                 \
  ".cfi_endproc\n"                          \
  ".type aiflame_enter, @function\n"        \
  "aiflame_enter:\n"                        \
  ".cfi_startproc\n"                        \
  "push %rbp\n"                             \
  ".cfi_adjust_cfa_offset 8\n"              \
  ".cfi_rel_offset %rbp, 0\n"               \
  "sub $16, %rsp\n"                         \
  "movsd %xmm0, (%rsp)\n"                   \
  "movsd %xmm1, 8(%rsp)\n"                  \
  "push %r9\n"                              \
  "push %r8\n"                              \
  "push %rcx\n"                             \
  "push %rdx\n"                             \
  "push %rsi\n"                             \
  "push %rdi\n"                             \
  "lea 64(%rsp), %rbp\n"                    \
  ".cfi_def_cfa %rbp, 16\n"                 \
  "mov %rsp, %rdi\n"                        \
  "lea " AIFLAME_LIBRARY                    \
  "(%rip), %rsi\n"                          \
  "mov %eax, %edx\n"                        \
  "call *aiflame_stand_in@GOTPCREL(%rip)\n" \
  "mov %rbp, %rsp\n"                        \
  "pop %rbp\n"                              \
  ".cfi_def_cfa %rsp, 8\n"                  \
  "ret\n"                                   \
  ".cfi_endproc\n"                          \
  ".size aiflame_enter, . - aiflame_enter\n"

extern "C" __attribute__((visibility("hidden"))) const char aiflame_entries[];
extern "C" __attribute__((visibility("hidden"))) aiflame::stand_in::Library aiflame_library;

namespace aiflame::stand_in {

template <size_t kCount>
constexpr bool ordered(const Fact (&facts)[kCount]) {
  for (size_t at = 1; at < kCount; at++)
    if (std::string_view(facts[at - 1].name) >= std::string_view(facts[at].name)) return false;
  return true;
}

}  // namespace aiflame::stand_in
