// Stacks of our own for ticks that arrive on an alternate stack.
//
// An alternate stack may have 8 KB, of which the program's handler and two of the kernel's signal frames (3 KB each with AVX-512) may have used up
// most by then.
#pragma once
#include <ucontext.h>

namespace aiflame::private_stack {

// Runs `work`, called from a handler that got `context`. Safe in a handler.
void run(const ucontext_t* context, void (*work)(void*) noexcept, void* argument) noexcept;

}  // namespace aiflame::private_stack
