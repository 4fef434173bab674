// Captures a stack of the calling thread: native and Python frames, merged by stack address.
#pragma once
#include "sampler/threads.hpp"

#include <cstdint>

namespace aiflame {

// The merged stack of the calling thread as a node of the trie; 0 if no frame could be captured. `outward`: returns the registers to begin from
// instead; called while we own the thread's unwinder.
using Outward = Registers (*)(Thread& thread, const Registers& from) noexcept;
uint32_t capture(Thread& thread, const Registers& from, Outward outward = nullptr) noexcept;

// The stack of a thread that began at `routine` (0: unknown) and ended before it was sampled.
uint32_t unseen_stack(uint64_t routine) noexcept;

// New tables: the frames that capture() itself adds need new rows.
void forget_marks() noexcept;

}  // namespace aiflame
