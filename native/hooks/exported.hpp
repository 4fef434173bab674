// Functions of libc and of runtimes that we stand in front of.
#pragma once
#include "base/own_process.hpp"
#include "base/real.hpp"

namespace aiflame::hooks {

// Finds every real function and registers for fork and exit. From the collector's constructor, once.
void resolve() noexcept;

// Of each file with hooks.
void resolve_signals() noexcept;
void resolve_process() noexcept;
void resolve_exec() noexcept;
void resolve_threads() noexcept;
void resolve_dlclose() noexcept;
void resolve_sandbox() noexcept;
void resolve_identity() noexcept;

// Our wrapper of libc's prctl() or syscall(), or the function itself where it is neither.
void* sandbox_wrapper(void* function) noexcept;

}  // namespace aiflame::hooks

#define AIFLAME_EXPORT extern "C" __attribute__((visibility("default")))
