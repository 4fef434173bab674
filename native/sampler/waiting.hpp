// Whether another thread waits in a call that it does not notice to be interrupted.
#pragma once
#include <ucontext.h>
#include <cstdint>

namespace aiflame::waiting {

// The system call that the thread waits in, when a signal interrupts it unnoticed: the kernel makes it again, or resume() does. -1 otherwise.
// Safe in a handler.
int call_of(uint32_t tid) noexcept;

// In the handler of that signal: the call is made again where the kernel has given it up.
void resume(ucontext_t* context, int call) noexcept;

// The other way round: a call that the kernel is about to make again, since our handler says so, ends with EINTR.
void end_call(ucontext_t* context) noexcept;

}  // namespace aiflame::waiting
