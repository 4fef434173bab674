// The stack that a thread's ticks run on: ours, never the thread's own.
//
// Some code keeps data below its stack pointer, further than the 128 bytes that the kernel leaves alone (oneDNN's matrix kernels do).
// A signal frame on that stack destroys it. So each thread that we time has an alternate signal stack of ours, in the memory of its
// Thread; the kernel knows that one alone. What the program asks of its own alternate stack is answered from Thread::theirs, and its
// handlers run there (sampler/redelivery).
//
// A program that speaks to the kernel without libc replaces ours: its ticks then run on its alternate stack.
#pragma once
#include <ucontext.h>
#include <cstddef>
#include <cstdint>

namespace aiflame {

struct Thread;

// The alternate stack that the program believes a thread has.
struct AlternateStack {
  uint64_t low, bytes;  // bytes is 0: none

  // As the kernel asks it: a stack pointer lies on it, also right at its end.
  bool holds(uint64_t sp) const noexcept { return sp > low && sp - low <= bytes; }
};

namespace tick_stack {

// In front of each Thread, in the same mapping: a frame of the kernel's (11 KB where AMX is in use), a tick, a fault in the tick, and
// what a runtime needs that takes an alternate stack which it finds for its own (Go's wants 32 KB).
inline constexpr size_t kBytes = 64 * 1024;

// Memory for a stack and a Thread of so many bytes behind it; the Thread's address. nullptr when there is none. The lowest page is
// without access where `guarded`.
void* map_with_thread(size_t thread_bytes, bool guarded) noexcept;

// Gives the calling thread its stack, and the program's, where it has one, to Thread::theirs. Not for handlers. False where the kernel
// refuses: the thread runs on an alternate stack just now.
bool install(Thread& thread) noexcept;
// The same from a handler that got `context`: in effect when it has returned.
void install_on_return(Thread& thread, ucontext_t* context) noexcept;
// Gives the calling thread back what it would have without us. Not for handlers.
void remove(Thread& thread) noexcept;

// Whose stack the kernel took for the signal frame that `context` is part of; nullptr where it took another, or none of ours. Touches no
// thread-local.
Thread* owner(const ucontext_t* context) noexcept;

// What the signal interrupted runs on the alternate stack that the kernel has for the thread.
bool runs_on_alternate(const ucontext_t* context) noexcept;

// The address lies on the thread's stack of ours.
bool holds(const Thread& thread, uint64_t address) noexcept;

// sigaltstack() of the calling thread, whose stack of ours is installed; 0 or an error number. `sp`: of the caller.
int exchange(Thread& thread, const stack_t* wanted, stack_t* before, uint64_t sp) noexcept;

}  // namespace tick_stack

}  // namespace aiflame
