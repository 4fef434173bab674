// Hands a signal on to the program's handler as the kernel would have brought it without us: on the stack where the handler expects to run.
//
// The kernel puts the frame of a signal on our alternate stack (sampler/tick_stack). A handler of the program's may switch to another
// context and come back much later, leave by a jump, or look where it runs: so the whole frame is copied to the place that the kernel
// would have chosen, and the handler begins there. It returns through the copy.
#pragma once
#include "sampler/disposition.hpp"

#include <ucontext.h>

namespace aiflame::redelivery {

// `cfa`: __builtin_dwarf_cfa() of the handler that the kernel called; where somebody else called it, and where the frame lies where it
// belongs, the program's handler is simply called. `mask`: signals to be blocked meanwhile, nullptr where the kernel has seen to that.
void call(int signal, siginfo_t* info, ucontext_t* context, const void* cfa, const signals::Disposition& handler, const uint64_t* mask) noexcept;

}  // namespace aiflame::redelivery
