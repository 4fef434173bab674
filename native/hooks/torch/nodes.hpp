// Which module's call made which autograd nodes → `layer_calls`: what backward work is led to its layer by where no launch of the forward pass
// has the node's number (`chunk` launches nothing, its gradient does), and on a CPU, whose samples meet few of the nodes.
//
// Each node is looked at when it takes its number: libtorch's own function for that is called through tables that can be pointed at ours.
// Nothing in Python is wrapped or hooked, so nothing there can tell.
#pragma once

namespace aiflame::torch_nodes {

// Nodes that are made, of this libtorch, are looked at. Once autograd's numbers can be read.
void listen(void* library) noexcept;

}  // namespace aiflame::torch_nodes
