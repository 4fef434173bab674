// Sums of gradients → `gradient_sums`: when autograd's engine adds the gradients of a tensor up that several ops used, and which ops.
//
// The engine hands each gradient that a node has given to the node that it goes to. What came first is kept, what comes later is added to
// it, in no node's own work. The node that has just run is known (sampler/torch_autograd); which one gave the first gradient is not, after
// it is gone. Both together say which module the sum belongs to: the innermost one that both were made in.
#pragma once

namespace aiflame::torch_sums {

// The engine of this libtorch is looked at. Once autograd's numbers can be read.
void listen(void* library) noexcept;

}  // namespace aiflame::torch_sums
