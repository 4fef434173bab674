// Where the calling thread's stack lies.
#pragma once
#include <cstdint>

namespace aiflame {

struct StackBounds {
  uint64_t low, high;
};

// Of a thread that is about to run its start routine, and was made with so many bytes of stack. To ask libpthread would take memory from an
// allocator, perhaps a sanitizer's, that is not ready in this thread.
StackBounds stack_bounds_of_new_thread(uint64_t bytes) noexcept;

// Of any thread, from /proc/self/maps; safe in a handler, whatever stack that runs on: `sp` is looked up only where nothing else is
// known to lie on the thread's own stack. `block`: the thread's own memory as libc keeps it (thread_block), 0: none. {0, 0} when unknown.
StackBounds stack_bounds_around(uint64_t sp, uint64_t block, bool main_thread) noexcept;

}  // namespace aiflame
