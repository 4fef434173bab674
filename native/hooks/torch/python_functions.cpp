#include "hooks/torch/python_functions.hpp"

#include "base/large.hpp"
#include "hooks/python/values.hpp"
#include "hooks/torch/comm.hpp"
#include "hooks/torch/device_memory.hpp"
#include "hooks/torch/model_calls.hpp"
#include "hooks/torch/nodes.hpp"
#include "hooks/torch/sums.hpp"
#include "sampler/signals.hpp"
#include "sampler/torch_autograd.hpp"

namespace aiflame::torch {

namespace {

using namespace bridge;

Object calibrate_autograd(Object, const Object* given, intptr_t count, Object keywords) noexcept {
  static constexpr const char* kNames[] = {"node", "sequence", "thread"};
  Arguments arguments(kNames, 3);
  uint64_t node, sequence, thread;
  if (!arguments.bind(given, count, keywords) || !read_number(arguments[0], 0, &node) || !read_number(arguments[1], 0, &sequence) ||
      !read_number(arguments[2], 0, &thread))
    return nullptr;
  signals::FaultsOpen faults;  // more is read than a node need have
  if (void* library = torch_autograd::calibrate(node, sequence, thread)) {
    torch_nodes::listen(library);
    torch_sums::listen(library);
    torch_models::listen(library);
    torch_memory::listen(library);
  }
  py.hold(py.none);
  return py.none;
}

Object watch_model_calls(Object, const Object* given, intptr_t count, Object keywords) noexcept {
  static constexpr const char* kNames[] = {"call", "tensor_type", "tensor", "inner", "call_size", "tensor_size"};
  Arguments arguments(kNames, 6);
  uint64_t inner, call_size, tensor_size;
  if (!arguments.bind(given, count, keywords) || !read_number(arguments[3], 0, &inner) || !read_number(arguments[4], 0, &call_size) ||
      !read_number(arguments[5], 0, &tensor_size))
    return nullptr;
  torch_models::watch(arguments[0], call_size, {.type = arguments[1], .example = arguments[2], .inner = inner, .size = tensor_size});
  py.hold(py.none);
  return py.none;
}

Object listen_to_torch_distributed(Object, const Object*, intptr_t, Object) noexcept { return py.new_number(torch_comm::listen()); }

}  // namespace

bool add_python_functions(bridge::Object module) noexcept {
  AIFLAME_LARGE static Method methods[] = {
      method("calibrate_autograd", calibrate_autograd),
      method("watch_model_calls", watch_model_calls),
      method("listen_to_torch_distributed", listen_to_torch_distributed),
  };
  return add_functions(module, methods);
}

}  // namespace aiflame::torch
