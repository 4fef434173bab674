// Finds the node of torch's autograd that is running, or was made last: a few loads from the thread-local memory of libtorch.
//
// Functions of libtorch report the same, but a tick cannot call them: they may allocate the thread's first thread-local memory of a library, or
// allocate its table of thread-locals anew after a library was loaded. So these functions are used once to find the three variables (calibrate), a
// hook finds the address of a thread's copy (now), and ticks read only known addresses.
#pragma once
#include "sampler/threads.hpp"

#include <cstdint>

namespace aiflame::torch_autograd {

// The columns `autograd` and `sequence` of `launches`; both 0: the program has no torch autograd.
struct Point {
  uint16_t autograd;
  uint32_t sequence;

  bool is_backward() const noexcept { return autograd & 1u << 15; }
};

// The state of the calling thread. Not for ticks.
Point now() noexcept;
// Called when torch's engine starts this node: now() needs the previous node while a node without a number runs. Not for ticks.
void runs(const void* node) noexcept;
// For torch's work at the end of a backward pass, outside of nodes: the position of this thread's last node.
Point after_backward() noexcept;
// torch's number of the calling thread, and the number that the thread's next new node will get, even inside a backward node.
Point next() noexcept;
// For a tick. A worker of an OpenMP region without autograd state of its own gets the position where the region was launched.
Point in_tick(const Thread& thread) noexcept;

// The launcher's position: Thread::launched_point for the region's workers.
uint64_t packed(Point point) noexcept;

// Learns the layout of nodes from the C++ node at this address and its numbers. thread 0: the calling one. Needs four nodes in which only these
// numbers increase by one each time, and only the thread's number stays the same. With the fourth, returns dlopen()'s handle of libtorch if
// it has learned the whole layout; else nullptr.
void* calibrate(uint64_t node, uint64_t sequence, uint64_t thread) noexcept;

// Writes Thread::nodes_made of a thread with this row, when its run of nodes, the thread or the recording has ended.
void finish_nodes(Thread& thread, uint32_t row) noexcept;

}  // namespace aiflame::torch_autograd
