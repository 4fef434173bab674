// Where the calling thread's stack lies.
#pragma once
#include <cstdint>

namespace aiflame {

struct StackBounds {
  uint64_t low, high;
};

// Of a thread that is about to run its start routine (asks libpthread; not for handlers).
StackBounds stack_bounds_of_new_thread() noexcept;

// Of any thread, from /proc/self/maps; safe in a handler, whatever stack that runs on: `sp` is looked up only where nothing else is
// known to lie on the thread's own stack. `block`: the thread's own memory as libc keeps it (thread_block), 0: none. {0, 0} when unknown.
StackBounds stack_bounds_around(uint64_t sp, uint64_t block, bool main_thread) noexcept;

}  // namespace aiflame
