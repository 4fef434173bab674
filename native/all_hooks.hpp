// All hooks, as the collector's life reaches them: it knows none of them by name (hooks/all_hooks.cpp does).
#pragma once
#include <cstdint>

namespace aiflame::all_hooks {

// A recording is about to begin: real functions are found. `preloaded`: our wrappers are in front of everybody's already.
void prepare(bool preloaded) noexcept;
// It has begun, and tables are open.
void start() noexcept;
// It goes on after an exec that failed.
void resume() noexcept;

// Work that devices still hold is written: at the end of a recording, where any lock may be taken.
void finish() noexcept;
// The same where the process is about to end or to exec, in a thread that may be in a signal handler and hold any lock.
void flush_anywhere() noexcept;

// Rows of tables that are gone are not referred to again.
void forget_rows() noexcept;
// Only the thread that forked lives on.
void after_fork_child() noexcept;

// A tick has interrupted a thread of the program at `pc`.
void tick(uint64_t now, uint64_t pc) noexcept;

}  // namespace aiflame::all_hooks
