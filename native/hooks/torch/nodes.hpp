// The module call that made each autograd node → `layer_calls`. It leads backward work to its layer where no launch of the forward pass
// has the node's number (`chunk` launches nothing, its gradient does), and on a CPU, whose samples fall into few of the nodes.
//
// Each node is looked at when it takes its number: we point the tables through which libtorch calls its own function for that to ours.
// Nothing in Python is wrapped or hooked, so Python code sees no difference.
#pragma once

namespace aiflame::torch_nodes {

// Nodes that are made, of this libtorch, are looked at. Once autograd's numbers can be read.
void listen(void* library) noexcept;

}  // namespace aiflame::torch_nodes
