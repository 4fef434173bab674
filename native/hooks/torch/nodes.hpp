// The module call that made each autograd node → `layer_calls`. It gives backward work its layer if no launch of the forward pass has the node's
// number (`chunk` launches nothing, its gradient does), and on a CPU, where samples hit few of the nodes.
//
// Each node is inspected when it gets its number: in the tables through which libtorch calls its own function for that, we replace the pointer by one
// to ours. Nothing in Python is wrapped or hooked, so Python code sees no difference.
#pragma once

namespace aiflame::torch_nodes {

// From now on nodes that this libtorch makes are inspected. Call it once autograd's numbers can be read.
void listen(void* library) noexcept;

}  // namespace aiflame::torch_nodes
