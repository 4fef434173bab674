// Entry points of MPI calls: every exported name leads to aiflame_mpi_call (entries.cpp).
#pragma once
#include "mpi/functions.hpp"
#include "records/calls.hpp"

namespace aiflame::mpi {

// The arguments in registers and on the caller's stack. No function of MPI has more words; reading beyond the arguments of a frame does no harm.
struct Frame {
  static constexpr size_t kRegisters = 6, kStack = 10;
  uint64_t registers[kRegisters];
  uint64_t bp, pc;
  uint64_t stack[kStack];

  uint64_t word(size_t at) const noexcept { return at < kRegisters ? registers[at] : stack[at - kRegisters]; }
  Registers caller() const noexcept { return Registers{.pc = pc, .sp = reinterpret_cast<uint64_t>(stack), .bp = bp, .all = nullptr, .exact = false}; }
};

}  // namespace aiflame::mpi

// `entry`: the function's place in kFunctions, times 8, and the Language.
extern "C" __attribute__((visibility("hidden"))) uint64_t aiflame_mpi_call(aiflame::mpi::Frame* frame, uint32_t entry);
// The range of the exported names.
extern "C" __attribute__((visibility("hidden"))) const char aiflame_mpi_entries[], aiflame_mpi_entries_end[];
