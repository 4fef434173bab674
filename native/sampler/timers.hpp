// The ticks of a thread: POSIX timers on its CPU clock and on the wall clock, made with raw system calls.
#pragma once
#include "sampler/threads.hpp"

#include <ucontext.h>
#include <csignal>

namespace aiflame::timers {

// Starts the timers that the control page demands. Safe in a handler, also for another thread. `cpu_ns`: its CPU clock, if that was just read.
void arm(Thread& thread, uint64_t cpu_ns = 0) noexcept;
void disarm(Thread& thread) noexcept;

// True if the thread for which a timer of this one was made has ended.
bool orphaned(const Thread& thread) noexcept;

// The kernel checks timers of CPU clocks when it interrupts a processor, say every 4 ms: a thread that ended before that lacks its last ticks, or has
// none at all. They are recorded now, without a stack; otherwise a program of short threads would have too few samples. `cpu_ns`: its CPU clock at
// the end. `lives`: only its recording ends.
void make_up(Thread& thread, uint32_t row, uint64_t cpu_ns, uint64_t end_ns, bool lives) noexcept;

// The work of a tick: one sample of the calling thread.
void tick(Thread& thread, siginfo_t* info, ucontext_t* context) noexcept;

}  // namespace aiflame::timers
