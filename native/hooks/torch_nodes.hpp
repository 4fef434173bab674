// Which module's call made which autograd nodes → `layer_calls`: what a CPU's backward work is led to its layer by.
//
// A sample every few milliseconds meets few of the nodes that forward code makes, so each is looked at when it takes its number: libtorch's
// own function for that is called through tables that can be pointed at ours. Nothing in Python is wrapped or hooked, so nothing there can
// tell. Launches on a GPU are met one by one anyway: from the first on, nodes are let go by.
#pragma once

namespace aiflame::torch_nodes {

// Nodes that are made, of this libtorch, are looked at. Once autograd's numbers can be read.
void listen(void* library) noexcept;
// No more: launches tell whose call makes them.
void launches_tell() noexcept;

}  // namespace aiflame::torch_nodes
