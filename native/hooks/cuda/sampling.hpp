// Continuous sampling of the reasons for which warps wait, in one context a device: kernels run as they would without it.
//
// Files: sampling_plan.hpp (period, times, windows), sampling_session.cpp (CUPTI's side),
// sampling_records.cpp (the rows), this one (contexts, and which thread may use them when).
#pragma once
#include "hooks/cuda/cupti_api.hpp"

#include <cstdint>

namespace aiflame::cuda::sampling {

// Begins to sample it, when no other context of its device is sampled, and never a second time once that has ended. In the callback of its
// creation, or for one that exists; again for the same context does nothing.
void context_created(CUcontext context, uint32_t device) noexcept;
// Before that, where the context must be new: CUPTI may not have reported the end of an earlier one at the same address.
void context_is_new(CUcontext context) noexcept;
// In the callback that announces its end: the last samples are written.
void context_ending(CUcontext context) noexcept;

// Fetches the samples of every context that is due, or of all; the time until the next is due, ns.
// From one thread, outside of callbacks.
uint64_t drain(bool all) noexcept;

// The last samples of every context are written; CUPTI is not called afterwards until a context is created.
void stop() noexcept;
// A context is sampled.
bool any() noexcept;

// A new recording has empty tables.
void forget_rows() noexcept;
// The contexts are the parent's.
void after_fork_child() noexcept;

}  // namespace aiflame::cuda::sampling
