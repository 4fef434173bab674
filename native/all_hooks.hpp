// The steps of a recording, for all hooks at once. Only hooks/all_hooks.cpp knows the single hooks.
#pragma once
#include <cstdint>

namespace aiflame::all_hooks {

// A recording is about to begin: looks up the real functions. `preloaded`: callers already reach our wrappers before any other library's functions.
void prepare(bool preloaded) noexcept;
// The recording has begun, and tables are open.
void start() noexcept;
// The recording continues after an exec that failed.
void resume() noexcept;

// Writes the records that devices still hold, at the end of a recording, where any lock may be taken.
void finish() noexcept;
// The same if the process is about to end or to exec, in a thread that may be in a signal handler and hold any lock.
void flush_anywhere() noexcept;

// Forgets rows of tables that no longer exist.
void forget_rows() noexcept;
// In the child of a fork, which has only the thread that forked.
void after_fork_child() noexcept;

// A tick has interrupted a thread of the program at `pc`.
void tick(uint64_t now, uint64_t pc) noexcept;

}  // namespace aiflame::all_hooks
