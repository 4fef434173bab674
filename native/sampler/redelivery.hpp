// Passes a signal to the program's handler as the kernel would without us: on the stack where the handler expects to run.
//
// The kernel puts the frame of a signal on our alternate stack (sampler/tick_stack). The program's handler may switch to another context and come
// back much later, leave by a jump, or inspect its stack: so the whole frame is copied to the place that the kernel would have chosen, and the
// handler starts there. It returns through the copy.
#pragma once
#include "sampler/disposition.hpp"

#include <ucontext.h>

namespace aiflame::redelivery {

// `cfa`: __builtin_dwarf_cfa() of the handler that the kernel called. If other code called it, or the frame is in the right place already, the
// program's handler is simply called. `mask`: signals to block during the call, nullptr if the kernel has blocked them.
void call(int signal, siginfo_t* info, ucontext_t* context, const void* cfa, const signals::Disposition& handler, const uint64_t* mask) noexcept;

}  // namespace aiflame::redelivery
