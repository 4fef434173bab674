// A thread's ticks: POSIX timers on its CPU clock and on the wall clock, made with raw system calls.
#pragma once
#include "sampler/threads.hpp"

#include <ucontext.h>
#include <csignal>

namespace aiflame::timers {

// Starts the timers that the control page asks for. Safe in a handler; another thread's are fine.
void arm(Thread& thread) noexcept;
void disarm(Thread& thread) noexcept;

// The thread that a timer of this one was made for is gone.
bool orphaned(const Thread& thread) noexcept;

// What a tick does: one sample of the calling thread.
void tick(Thread& thread, siginfo_t* info, ucontext_t* context) noexcept;

}  // namespace aiflame::timers
