// Signals that we do not use ourselves, but whose handlers we wrap.
//
// A handler for the alternate stack (SA_ONSTACK) would run on ours: it is moved to the program's alternate stack. While wall-clock ticks interrupt
// waiting threads, every signal of the program is counted, so that an interrupted call is repeated only if nothing but ticks came. The program reads
// back its handlers as it set them.
#pragma once
#include <csignal>

namespace aiflame::signals {

// Called when wall-clock ticks are on.
bool counting() noexcept;

// True if we wrap a handler that the program installs for this signal: then all functions by which the program queries it must be interposed.
bool interposed(int signal) noexcept;

// sigaction() for a signal that is not shared.
int exchange_interposed(int signal, const struct sigaction* wanted, struct sigaction* before) noexcept;

}  // namespace aiflame::signals
