// Calls of models → `model_calls`: those of a torch module that lie in no other module's call, with the number of tokens given to it.
//
// CPython calls a function through a pointer in the function object. In torch.nn.Module.__call__ we lead it to a function of ours: nothing that
// Python code can see changes, torch.compile meets no hook, and a call within another costs one look at a flag.
#pragma once
#include "hooks/python/abi.hpp"

#include <cstdint>

namespace aiflame::torch_models {

// A tensor of exactly this type, `size` bytes long, whose C++ object is at `inner`: it shows where tensors keep that pointer.
struct Tensor {
  bridge::Object type, example;
  uint64_t inner, size;
};

// Shapes of tensors are read through this libtorch; else they stay unknown. Before watch().
void listen(void* library) noexcept;

// From now on calls of `function`, which is Module.__call__ and `size` bytes long, are recorded.
void watch(bridge::Object function, uint64_t size, const Tensor& tensor) noexcept;

}  // namespace aiflame::torch_models
