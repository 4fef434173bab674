// The names that the library exports. Each has a few instructions, which note the function and the language, and leave the arguments in place.
#include "mpi/entries.hpp"

// Numbers of functions are counted by the assembler, in the order of kFunctions.
#define SYMBOL(name) ".globl " name "\n.type " name ", @function\n" name ":\n"
#define GO(language) "movl $(aiflame_mpi_row * 8 + " #language "), %eax\njmp aiflame_mpi_enter\n"
#define IN_FORTRAN(small, upper) \
  SYMBOL("mpi_" #small)          \
  SYMBOL("mpi_" #small "_")      \
  SYMBOL("mpi_" #small "__") SYMBOL("MPI_" #upper) GO(2) SYMBOL("mpi_" #small "_f08_") GO(3) SYMBOL("mpi_" #small "_f08ts_") GO(4)
#define NEXT ".set aiflame_mpi_row, aiflame_mpi_row + 1\n"
#define SMALL(name, small, upper, words, shape) SYMBOL("MPI_" #name) GO(0) IN_FORTRAN(small, upper) NEXT
#define BOTH(name, small, upper, words, shape) SYMBOL("MPI_" #name) GO(0) SYMBOL("MPI_" #name "_c") GO(1) IN_FORTRAN(small, upper) NEXT

static_assert(aiflame::mpi::C == 0 && aiflame::mpi::LARGE == 1 && aiflame::mpi::FORTRAN == 2 && aiflame::mpi::F08 == 3 && aiflame::mpi::F08TS == 4);
static_assert(offsetof(aiflame::mpi::Frame, bp) == 48 && offsetof(aiflame::mpi::Frame, stack) == 64);

// One range of unwind information for all of them: none moves the stack pointer.
asm(".text\n"
    "aiflame_mpi_entries:\n"
    ".cfi_startproc\n"
    ".set aiflame_mpi_row, 0\n"
#include "mpi/functions.inc"
    ".cfi_endproc\n"
    "aiflame_mpi_entries_end:\n"
    ".hidden aiflame_mpi_entries, aiflame_mpi_entries_end\n"
    ".globl aiflame_mpi_entries, aiflame_mpi_entries_end\n");

// Builds a Frame. The answer comes back in the register in which it is expected.
asm(R"(
  .type aiflame_mpi_enter, @function
aiflame_mpi_enter:
  .cfi_startproc
  push %rbp
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbp, 0
  push %r9
  push %r8
  push %rcx
  push %rdx
  push %rsi
  push %rdi
  lea 48(%rsp), %rbp
  .cfi_def_cfa %rbp, 16
  mov %rsp, %rdi
  mov %eax, %esi
  call aiflame_mpi_call
  mov %rbp, %rsp
  pop %rbp
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .size aiflame_mpi_enter, . - aiflame_mpi_enter
)");
