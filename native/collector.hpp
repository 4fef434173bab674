// The collector's life in a process: load, start, fork, exec, stop.
#pragma once

namespace aiflame::collector {

// Starts recording into $AIFLAME_PROFILE (or `profile`). Idempotent. False if there is no profile to record into.
bool start(const char* profile) noexcept;
// The same for a call from the constructor of another library, which may run before ours.
void start_early() noexcept;
void stop() noexcept;
// Stops, and takes all out of the program that would still act: timers, and handlers of signals.
void detach() noexcept;
bool active() noexcept;
// True if the recording began by `aiflame attach`: the program ran before it, and goes on after it.
bool attached() noexcept;

// True if the library came by LD_PRELOAD, so that its wrappers are in effect.
bool preloaded() noexcept;

void before_fork() noexcept;
void after_fork_parent() noexcept;
void after_fork_child() noexcept;
// The process image is about to be replaced: writes the end rows. If the exec fails, call after_failed_exec().
void before_exec() noexcept;
void after_failed_exec() noexcept;
// The process is about to enter a sandbox that may forbid all our work: ends its recording.
void before_sandbox() noexcept;
// The process is about to end without running destructors.
void before_exit() noexcept;

}  // namespace aiflame::collector
