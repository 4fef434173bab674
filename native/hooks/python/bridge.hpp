// Python of ours in the program: the module `_aiflame`, and target/bootstrap.py, which uses it.
//
// The interpreter runs us in pending calls: on its main thread, between two instructions of the program, in the main interpreter. An error
// there becomes a note; the program sees nothing of it.
#pragma once
#include <cstdint>

namespace aiflame::bridge {

// Before python::attach(): sets up the work that runs beside the self-test.
void prepare() noexcept;
// Recording has begun. Not for signal handlers.
void start() noexcept;

// Asks the interpreter to run our waiting work, if there is any: for calls that the program makes into this library.
void poke(uint64_t now) noexcept;
// The same for a tick that interrupted the program at `pc`.
void poke_in_tick(uint64_t now, uint64_t pc) noexcept;

// Rows for the child of a fork.
void forget_rows() noexcept;

}  // namespace aiflame::bridge
