// Finds libc's own functions behind our wrappers.
#pragma once

namespace aiflame::hooks {

// Finds every real function, and registers handlers for fork and exit. Called once, from the collector's constructor.
void resolve() noexcept;

// Finds the real functions behind those of each file with hooks.
void resolve_signals() noexcept;
void resolve_process() noexcept;
void resolve_exec() noexcept;
void resolve_threads() noexcept;
void resolve_dlclose() noexcept;
void resolve_sandbox() noexcept;
void resolve_identity() noexcept;

}  // namespace aiflame::hooks
