// Sums of gradients → `gradient_sums`: when autograd's engine adds the gradients of a tensor up that several ops used, and which ops.
//
// The engine hands each gradient from the node that computed it to the next node. It keeps the first, and adds later ones to it outside of
// any node's work. The node that has just run is known (sampler/torch_autograd); the one that gave the first gradient is gone by then, so
// we remember it. The sum belongs to the innermost module in which both nodes were made.
#pragma once

namespace aiflame::torch_sums {

// The engine of this libtorch is looked at. Once autograd's numbers can be read.
void listen(void* library) noexcept;

}  // namespace aiflame::torch_sums
