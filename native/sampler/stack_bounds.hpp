// The bounds of the calling thread's stack.
#pragma once
#include <cstdint>

namespace aiflame {

struct StackBounds {
  uint64_t low, high;
};

// The bounds for a thread that is about to run its start routine, and was made with this many bytes of stack. libpthread would answer only with
// memory from an allocator, perhaps a sanitizer's, that is not ready in this thread.
StackBounds stack_bounds_of_new_thread(uint64_t bytes) noexcept;

// The bounds for any thread, from /proc/self/maps; safe in a handler on any stack: `sp` is only looked up when no other address on the thread's own
// stack is known. `block`: the thread's own memory (thread_block), 0: none. {0, 0} when unknown.
StackBounds stack_bounds_around(uint64_t sp, uint64_t block, bool main_thread) noexcept;

}  // namespace aiflame
