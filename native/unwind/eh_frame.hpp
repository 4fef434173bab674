// Finds unwind rules in `.eh_frame`: they lead from an instruction to the caller of its function.
//
// Rules are read through our own view of the file and checked against its bounds: any bytes give a row or "none", never a fault.
#pragma once
#include "unwind/modules.hpp"

#include <cstddef>
#include <cstdint>

namespace aiflame::eh_frame {

// How the canonical frame address (CFA, the stack pointer before the call) is computed. The return address is just below it, unless a register has
// it.
enum class Cfa : uint8_t {
  NONE,       // no rule, or one that we cannot follow
  SP,         // rsp + cfa_offset
  BP,         // rbp + cfa_offset
  PLT,        // rsp + 8, and 8 more from the cfa_offset'th byte of the 16-byte entry on
  BP_DEREF,   // *(rbp + cfa_offset) + cfa_extra: a function that realigned its stack
  SP_DEREF,   // *(rsp + cfa_offset) + cfa_extra: hand-written assembly
  REGISTER,   // register cfa_extra (place in ucontext's gregs) + cfa_offset
  RETURNING,  // rsp + cfa_offset, and register cfa_extra has the return address: libgcc's way into a handler, and vfork()
  SIGNAL,     // the kernel's signal frame: all registers are on the stack
  OUTERMOST,  // the first function of a thread
};

enum class Bp : uint8_t {
  SAME,    // rbp is the caller's
  AT_CFA,  // saved at CFA + 8 * bp_words
  AT_BP,   // saved at rbp + 8 * bp_words
  LOST,
};

struct Row {
  Cfa cfa = Cfa::NONE;
  Bp bp = Bp::SAME;
  int16_t bp_words = 0;
  int32_t cfa_offset = 0;
  int32_t cfa_extra = 0;
};

// The row for the instruction at `pc`, an address in the module.
Row find_row(const modules::Module& module, uint64_t pc) noexcept;

// Lists the functions of an `.eh_frame` section without a search table, sorted, relative to its own vaddr. Returns their number: call it without room
// first.
size_t index_section(const uint8_t* section, uint64_t vaddr, uint64_t bytes, modules::IndexEntry* out, size_t room) noexcept;

}  // namespace aiflame::eh_frame
