// From a callback of ours out to whoever called CUDA.
//
// CUPTI's and the driver's own frames lie between: six or more, which tell nobody anything and are a fifth of a launch's stack. They are
// the same ones launch after launch. A way that a walk has found once is kept as return addresses and how far above the callback's caller
// each lies; where all of them are found in their places again, the walk begins behind them.
#pragma once
#include "unwind/frames.hpp"

namespace aiflame {
struct Thread;
}

namespace aiflame::cuda {

// Where our code, CUPTI's and the driver's lie. Outside of callbacks.
void find_inner_code() noexcept;

// The registers of the innermost frame that is neither ours nor CUPTI's nor the driver's; `from` itself where no rules lead to one. What
// capture() takes.
Registers way_out(Thread& thread, const Registers& from) noexcept;

}  // namespace aiflame::cuda
