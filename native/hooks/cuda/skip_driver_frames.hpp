// Leads from a callback of ours to the call of CUDA.
//
// Between them are frames inside CUPTI and the driver: six or more, which show nothing about the program and are a fifth of a launch's stack. They
// repeat launch after launch. We store the result of a walk as a path: its return addresses, and how far each is above the callback's caller. If the
// next callback's stack has all of them in the same places, the unwinder starts at the end of the path.
#pragma once
#include "unwind/frames.hpp"

namespace aiflame {
struct Thread;
}

namespace aiflame::cuda {

// Finds the address ranges of our code, CUPTI's and the driver's. Outside of callbacks.
void find_inner_code() noexcept;

// The registers, for capture(), of the frame of the driver's function that the program called, or of the frame that called CUPTI
// otherwise; `from` itself where no unwind rules lead there.
Registers skip_driver_frames(Thread& thread, const Registers& from) noexcept;

}  // namespace aiflame::cuda
