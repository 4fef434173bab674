// Our Python code in the program: the module `_aiflame`, and target/bootstrap.py, which uses it.
//
// The interpreter runs it in pending calls: on its main thread, between two instructions of the program, in the main interpreter. An error there
// becomes a note; the program does not see it.
#pragma once
#include <cstdint>

namespace aiflame::bridge {

// Call before python::attach(): prepares the work that runs with the self-test.
void prepare() noexcept;
// Recording has begun. Not in signal handlers.
void start() noexcept;

// Asks the interpreter to run our waiting work, if there is any. For calls that the program makes into this library.
void poke(uint64_t now) noexcept;
// The same for a tick that interrupted the program at `pc`.
void poke_in_tick(uint64_t now, uint64_t pc) noexcept;

// Rows for the child of a fork.
void forget_rows() noexcept;

}  // namespace aiflame::bridge
