// Graphs of HIP: which node a kernel of a launched graph belongs to, and the stack that made the node.
//
// rocprofiler numbers no nodes. So the calls that make graphs are followed: streams that capture, events that draw other streams into a capture,
// nodes that are added. While a graph is launched, the n-th kernel of a name that is put into a queue is the n-th node with that kernel. Where
// branches of a graph may run in another order, this holds only if all nodes with that kernel were made at one stack; else the node stays unknown.
#pragma once
#include "hooks/rocprofiler/api.hpp"
#include "sampler/torch_autograd.hpp"

#include <cstdint>
#include <string_view>

namespace aiflame::rocprofiler::graphs {

enum class Step : uint8_t {
  NONE,
  GET_FUNCTION,
  GET_FUNCTION_OF_SYMBOL,
  LAUNCH,          // stream at 40
  LAUNCH_BY_HOST,  // stream at 48
  LAUNCH_BY_CONFIGURATION,
  BEGIN_CAPTURE,
  BEGIN_CAPTURE_TO,
  END_CAPTURE,
  RECORD_EVENT,
  WAIT_EVENT,
  ADD_KERNEL,
  ADD_NODE,
  ADD_CHILD,
  CLONE,
  INSTANTIATE,
  UPDATE,
  CHANGE_NODE,
  REMOVE_NODE,
  LAUNCH_GRAPH,
  DESTROY,
  DESTROY_EXECUTABLE,
};
Step step_of(std::string_view name) noexcept;
// A node may be made at this call: its stack is needed.
inline bool makes_node(Step step) noexcept { return step == Step::ADD_KERNEL || step == Step::ADD_NODE; }

// Where the calling thread is.
struct Maker {
  uint32_t thread, stack;
  torch_autograd::Point point;
};

void before(Step step, const ApiCall& call) noexcept;
// Of a call that succeeded.
void after(Step step, const ApiCall& call, const Maker& maker) noexcept;

// A function of the host that stands for a kernel.
void on_host_kernel(const HostKernelSymbol& symbol) noexcept;

// For a kernel that this thread puts into a queue: `node` of `kernels`.
uint64_t node_of(uint64_t kernel) noexcept;

// A new recording: nodes of the one before have no stacks.
void forget() noexcept;

}  // namespace aiflame::rocprofiler::graphs
