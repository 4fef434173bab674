// Which node of torch's autograd runs, or was made last.
#pragma once
#include <cstdint>

namespace aiflame::torch_autograd {

// As the columns `autograd` and `sequence` of `launches`; both 0: torch's autograd is not in the program.
struct Point {
  uint16_t autograd;
  uint32_t sequence;
};
Point now() noexcept;
// torch's number of the calling thread, and the number that the next node will get which it makes, also inside a backward node.
Point next() noexcept;

// The C++ node at this address has these numbers: where they lie in it is where they lie in all.
void calibrate(uint64_t node, uint64_t sequence, uint64_t thread) noexcept;

}  // namespace aiflame::torch_autograd
