// The steps of a recording, for all hooks at once: only hooks/all_hooks.cpp names the hooks.
#pragma once
#include <cstdint>

namespace aiflame::all_hooks {

// A recording is about to begin: looks up the real functions. `preloaded`: our wrappers come before all other libraries' functions already.
void prepare(bool preloaded) noexcept;
// It has begun, and tables are open.
void start() noexcept;
// It goes on after an exec that failed.
void resume() noexcept;

// Writes the records that devices still hold: at the end of a recording, where any lock may be taken.
void finish() noexcept;
// The same where the process is about to end or to exec, in a thread that may be in a signal handler and hold any lock.
void flush_anywhere() noexcept;

// Forgets rows of earlier tables, which are gone.
void forget_rows() noexcept;
// Only the thread that forked lives on.
void after_fork_child() noexcept;

// A tick has interrupted a thread of the program at `pc`.
void tick(uint64_t now, uint64_t pc) noexcept;

}  // namespace aiflame::all_hooks
