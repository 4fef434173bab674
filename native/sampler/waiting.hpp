// Finds out whether another thread waits in a call that a signal can interrupt without the program noticing.
#pragma once
#include <ucontext.h>
#include <cstdint>

namespace aiflame::waiting {

// The system call in which the thread waits, if a signal interrupts it unnoticed: the kernel repeats it, or resume() does. Otherwise -1. Safe in a
// handler.
int call_of(uint32_t tid) noexcept;

// The system call that our handler has just ended with EINTR, if any handler would have, with or without SA_RESTART: its number stands in the code
// before it, as libc writes it. Otherwise -1.
int ended_call(const ucontext_t* context) noexcept;

// Called in the handler of that signal: repeats the call if the kernel has ended it.
void resume(ucontext_t* context, int call) noexcept;

// True if the kernel is about to repeat the interrupted call, since our handler has SA_RESTART.
bool to_be_repeated(const ucontext_t* context) noexcept;
// Such a call ends with EINTR.
void end_call(ucontext_t* context) noexcept;

// Whether a signal of the program's came during the tick whose handler ends system calls: one without SA_RESTART, or any handler. A signal that comes
// after this, and before the thread is back in its call, is seen by interposed_signals, where that handler is among those set through libc.
bool interrupting_signal_pending(const ucontext_t* context, bool any_handler) noexcept;

// Where we are not preloaded, no wrapper of ours makes a call again that a tick has ended. A tick of the CPU clock comes before the call has begun to
// wait, so that its time limit starts anew unnoticed.
void repeat_ended(ucontext_t* context) noexcept;

}  // namespace aiflame::waiting
