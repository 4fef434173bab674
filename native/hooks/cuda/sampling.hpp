// Continuous sampling of the reasons for which warps wait, in one context of each device: kernels run as they would without it.
//
// Files: sampling_plan.hpp (period, times, windows), sampling_session.cpp (CUPTI's side), sampling_records.cpp (the rows), this one (contexts, and
// which thread may use them when).
#pragma once
#include "hooks/cuda/cupti_api.hpp"

#include <cstdint>

namespace aiflame::cuda::sampling {

// Begins to sample the context, unless another context of its device is sampled or sampling of this one has ended before. Call it in the callback of
// the context's creation, or later; a second call does nothing.
void context_created(CUcontext context, uint32_t device) noexcept;
// The same for a context that the program has used before: launches are held while sampling begins. Where the recording began by `aiflame attach`,
// and where a launch takes too long, the worker begins it later, if the device's load makes it worth its cost.
void context_found(CUcontext context, uint32_t device) noexcept;
// Call this first if the context must be new: CUPTI may not have reported the end of an earlier context at the same address.
void context_is_new(CUcontext context) noexcept;
// Writes the context's last samples. Call it in the callback that announces the context's end.
void context_ending(CUcontext context) noexcept;

// Fetches the samples of every context that is due, or of all contexts. Returns the time until the next is due, in ns. For one thread, outside of
// callbacks.
uint64_t drain(bool all) noexcept;

// Ends the sampling of a device's context for now, with its last samples, / begins it anew. Launches of the program are held meanwhile. False: not
// this time, because a launch takes too long. For the worker.
bool pause(uint32_t device) noexcept;
bool resume(uint32_t device) noexcept;
// True if a context of the device is sampled / was sampled until pause().
bool sampled(uint32_t device) noexcept;
bool paused(uint32_t device) noexcept;

// Writes the last samples of every context. CUPTI is not called again until the program creates a context.
void stop() noexcept;
// True if any context is sampled.
bool any() noexcept;

// A new recording has empty tables.
void forget_rows() noexcept;
// In the child of a fork: the contexts belong to the parent.
void after_fork_child() noexcept;

}  // namespace aiflame::cuda::sampling
