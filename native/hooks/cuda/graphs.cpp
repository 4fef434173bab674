// Nodes of graphs: the stack that captured each node, and the node that it was cloned from when a graph is instantiated.
#include "base/clock.hpp"
#include "base/large.hpp"
#include "hooks/cuda/internal.hpp"
#include "hooks/cuda/skip_driver_frames.hpp"
#include "hooks/shared/caller.hpp"
#include "sampler/capture.hpp"
#include "sampler/threads.hpp"
#include "sampler/torch_autograd.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <atomic>

namespace aiflame::cuda {

namespace {

uint64_t id_of(CUgraphNode node) noexcept {
  uint64_t id = 0;
  return node && cupti().GetGraphNodeId && cupti().GetGraphNodeId(node, &id) == CUPTI_SUCCESS ? id : 0;
}

// The correlations of the last launches of graphs, each at its remainder.
constexpr uint32_t kLaunches = 1 << 16;
AIFLAME_LARGE constinit std::atomic<uint64_t> graph_launches[kLaunches]{};

}  // namespace

void on_graph_launch(uint64_t correlation) noexcept { graph_launches[correlation % kLaunches].store(correlation, std::memory_order_relaxed); }

uint64_t node_or_unknown(uint64_t node, uint64_t correlation) noexcept {
  constexpr uint64_t kUnknown = ~uint64_t{0};
  if (node || !correlation) return node;
  return graph_launches[correlation % kLaunches].load(std::memory_order_relaxed) == correlation ? kUnknown : 0;
}

void on_graph_node(CUpti_CallbackId id, const CUpti_GraphData& graph) noexcept {
  if (!control::recording()) return;
  schema::GraphNode row{.node = id_of(graph.node), .time_ns = now_ns()};
  if (!row.node) return;
  if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) row.original = id_of(graph.originalNode);
  if (!row.original) {
    Thread* thread = threads::self();
    if (!thread) return;
    row.thread = thread->row;
    row.stack = capture(*thread, hooks::caller(), skip_driver_frames);
    torch_autograd::Point point = torch_autograd::now();
    row.autograd = point.autograd;
    row.sequence = point.sequence;
    row.variant = variant_being_launched();
  }
  spool::append(row);
}

}  // namespace aiflame::cuda
