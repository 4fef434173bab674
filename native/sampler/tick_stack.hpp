// The stack on which a thread's ticks run: ours, never the thread's own.
//
// Some code keeps data further below its stack pointer than the 128 bytes that the kernel leaves alone (oneDNN's matrix kernels do). A signal frame
// on that stack destroys such data. So each thread with timers has an alternate signal stack of ours, in the memory of its Thread, and the kernel
// has only that one. The program's calls about its own alternate stack use Thread::theirs, and its handlers run there (sampler/redelivery).
//
// A program that calls the kernel without libc replaces ours: its ticks then run on its alternate stack.
#pragma once
#include <ucontext.h>
#include <cstddef>
#include <cstdint>

namespace aiflame {

struct Thread;

// The alternate stack that the program believes a thread to have.
struct AlternateStack {
  uint64_t low, bytes;  // bytes is 0: none

  // True if a stack pointer is on it, including its end, as the kernel checks it.
  bool holds(uint64_t sp) const noexcept { return sp > low && sp - low <= bytes; }
};

namespace tick_stack {

// The size of the stack before each Thread, in the same mapping: it must hold a signal frame (11 KB with AMX), a tick, a fault in the tick, and a
// runtime that uses any alternate stack that it finds (Go's needs 32 KB).
inline constexpr size_t kBytes = 64 * 1024;

// Memory for a stack and, behind it, a Thread of this many bytes; returns the Thread's address, nullptr if there is no memory. The lowest page is
// inaccessible if `guarded`.
void* map_with_thread(size_t thread_bytes, bool guarded) noexcept;

// Installs the calling thread's stack, and stores the program's, if it has one, in Thread::theirs. Not for handlers. False if the kernel refuses: the
// thread is running on an alternate stack.
bool install(Thread& thread) noexcept;
// The same from a handler with this `context`: takes effect when it has returned.
void install_on_return(Thread& thread, ucontext_t* context) noexcept;
// Restores the state that the calling thread would have without us. Not for handlers.
void remove(Thread& thread) noexcept;

// The thread on whose tick stack the kernel put the signal frame with `context`; nullptr if it is on none. Touches no thread-local.
Thread* owner(const ucontext_t* context) noexcept;

// True if the interrupted code runs on the thread's alternate stack.
bool runs_on_alternate(const ucontext_t* context) noexcept;

// True if the address is on the thread's tick stack.
bool holds(const Thread& thread, uint64_t address) noexcept;

// Answers the calling thread's sigaltstack() while its tick stack is installed: 0 or an error number. `sp`: the caller's.
int exchange(Thread& thread, const stack_t* wanted, stack_t* before, uint64_t sp) noexcept;

}  // namespace tick_stack

}  // namespace aiflame
