// A thread's ticks: POSIX timers on its CPU clock and on the wall clock, made with raw system calls.
#pragma once
#include "sampler/threads.hpp"

#include <ucontext.h>
#include <csignal>

namespace aiflame::timers {

// Starts the timers that the control page asks for. Safe in a handler, also for another thread. `cpu_ns`: its CPU clock, if that was just read.
void arm(Thread& thread, uint64_t cpu_ns = 0) noexcept;
void disarm(Thread& thread) noexcept;

// The thread that a timer of this one was made for is gone.
bool orphaned(const Thread& thread) noexcept;

// The kernel looks at timers of CPU clocks when it interrupts a processor, every 4 ms, say: a thread that ended before then got none of its
// ticks. They are recorded now, without a stack: else a program of short threads would have no samples. `cpu_ns`: its CPU clock at the end.
void make_up(Thread& thread, uint32_t row, uint64_t cpu_ns, uint64_t end_ns) noexcept;

// The work of a tick: one sample of the calling thread.
void tick(Thread& thread, siginfo_t* info, ucontext_t* context) noexcept;

}  // namespace aiflame::timers
