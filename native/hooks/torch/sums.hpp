// Sums of gradients → `gradient_sums`: when autograd's engine adds up the gradients of a tensor that several ops used, and which ops.
//
// The engine passes each gradient from the node that computed it to the next node. It keeps the first, and adds later ones to it outside of any
// node's work. sampler/torch_autograd knows the node that has just run; the node that gave the first gradient no longer exists then, so we remember
// it. The sum belongs to the innermost module in which both nodes were made.
#pragma once

namespace aiflame::torch_sums {

// Begins to observe the engine of this libtorch. Call it once torch_autograd can read autograd's numbers.
void listen(void* library) noexcept;

}  // namespace aiflame::torch_sums
