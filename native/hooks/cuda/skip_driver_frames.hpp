// From a callback of ours out to the call of CUDA.
//
// Frames inside CUPTI and the driver lie between: six or more, which say nothing about the program and are a fifth of a launch's stack.
// They repeat launch after launch. We store the result of a walk as a way: its return addresses, and how far above the callback's caller
// each lies. If the next callback's stack has all of them in the same places, the unwinder starts at the end of the way.
#pragma once
#include "unwind/frames.hpp"

namespace aiflame {
struct Thread;
}

namespace aiflame::cuda {

// Where our code, CUPTI's and the driver's lie. Outside of callbacks.
void find_inner_code() noexcept;

// The registers, for capture(), of the frame of the driver's function that the program called, or of the frame that called CUPTI
// otherwise; `from` itself where no unwind rules lead there.
Registers skip_driver_frames(Thread& thread, const Registers& from) noexcept;

}  // namespace aiflame::cuda
