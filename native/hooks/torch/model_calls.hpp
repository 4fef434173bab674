// Calls of models → `model_calls`: calls of a torch module outside of any other module's call, with the number of tokens in their arguments.
//
// CPython calls a function through a pointer in the function object. In torch.nn.Module.__call__ we replace it by a pointer to our function: Python
// code sees no change, torch.compile finds no hook, and a call within another costs only the check of a flag.
#pragma once
#include "hooks/python/abi.hpp"

#include <cstdint>

namespace aiflame::torch_models {

// A tensor of exactly this type, `size` bytes long, whose C++ object is at `inner`: it shows the offset of that pointer in a tensor.
struct Tensor {
  bridge::Object type, example;
  uint64_t inner, size;
};

// Shapes of tensors are read through this libtorch; without it they stay unknown. Call before watch().
void listen(void* library) noexcept;

// From now on calls of `function`, which is Module.__call__ and `size` bytes long, are recorded.
void watch(bridge::Object function, uint64_t size, const Tensor& tensor) noexcept;

}  // namespace aiflame::torch_models
