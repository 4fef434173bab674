// Signals that are the program's alone, whose handlers we stand in front of all the same.
//
// One that is to run on an alternate stack (SA_ONSTACK) would meet ours: it is led to the stack that the program has in mind. And while
// wall-clock ticks interrupt waiting threads, every signal of the program's is counted, so that an interrupted call is made again only
// if nothing but ticks came. What the program reads of its handlers is what it wrote.
#pragma once
#include <csignal>

namespace aiflame::signals {

// Wall-clock ticks are on.
bool counting() noexcept;

// Whether a handler that the program installs has us in front of it: then the program's every way to ask for it must come to us.
bool interposed(int signal) noexcept;

// sigaction() of a signal that is not shared.
int exchange_interposed(int signal, const struct sigaction* wanted, struct sigaction* before) noexcept;

}  // namespace aiflame::signals
