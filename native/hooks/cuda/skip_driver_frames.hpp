// From a callback of ours out to the call of CUDA.
//
// Frames of CUPTI's and the driver's own lie between: six or more, which tell nobody anything and are a fifth of a launch's stack. They are
// the same ones launch after launch. A way that a walk has found once is kept as return addresses and how far above the callback's caller
// each lies; where all of them are found in their places again, the walk begins at its end.
#pragma once
#include "unwind/frames.hpp"

namespace aiflame {
struct Thread;
}

namespace aiflame::cuda {

// Where our code, CUPTI's and the driver's lie. Outside of callbacks.
void find_inner_code() noexcept;

// The registers of the frame of the driver's function that the program called, or of whoever called CUPTI otherwise; `from` itself where no
// rules lead there. What capture() takes.
Registers skip_driver_frames(Thread& thread, const Registers& from) noexcept;

}  // namespace aiflame::cuda
