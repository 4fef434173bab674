// Which node of torch's autograd runs, or was made last: a few loads from the thread-local memory of libtorch.
//
// Functions of libtorch tell the same, but not to a tick: the first thread-local of a library that a thread touches is allocated then, and
// so is the table of them anew when any library was loaded since. So where the three variables lie is found once, with those functions
// (calibrate); where a thread's copy lies, in a hook (now); ticks read what is known.
#pragma once
#include "sampler/threads.hpp"

#include <cstdint>

namespace aiflame::torch_autograd {

// As the columns `autograd` and `sequence` of `launches`; both 0: torch's autograd is not in the program.
struct Point {
  uint16_t autograd;
  uint32_t sequence;

  bool is_backward() const noexcept { return autograd & 1u << 15; }
};

// Of the calling thread. Not for ticks.
Point now() noexcept;
// torch's engine goes to this node: what its last one was is known when it runs a node without a number (now). Not for ticks.
void runs(const void* node) noexcept;
// In what torch does at the end of a backward pass, in no node: where the last one of this thread was.
Point after_backward() noexcept;
// torch's number of the calling thread, and the number that the next node will get which it makes, also inside a backward node.
Point next() noexcept;
// In a tick. A worker of an OpenMP region that says nothing of its own is where the region was launched.
Point in_tick(const Thread& thread) noexcept;

// A region's launcher is here: Thread::launched_point of who works in it.
uint64_t packed(Point point) noexcept;

// The C++ node at this address has these numbers: where they lie in it is where they lie in all. thread 0: the calling one. Four nodes
// are asked for, of which no number but these rises by one each time, and none but the thread's stays. What dlopen() gave of libtorch,
// with the fourth, if all is known now; else nullptr.
void* calibrate(uint64_t node, uint64_t sequence, uint64_t thread) noexcept;

// Thread::nodes_made of a thread, with this row, is written: its run of nodes is over, or the thread, or the recording.
void finish_nodes(Thread& thread, uint32_t row) noexcept;

}  // namespace aiflame::torch_autograd
