// The operations of torch.distributed's backends: the functions by their mangled names, and how to read their arguments.
#pragma once
#include <cstdint>
#include <string_view>

namespace aiflame::torch_comm {

// A call's arguments, as the registers and the first word on the stack hold them: the address for the returned c10d::Work, the backend, then the
// function's own. Words beyond a function's last argument are undefined.
struct Arguments {
  uint64_t word[7];
};

struct Operation {
  std::string_view signature;  // the part of the mangled name after the class
  const char* name;            // as torch's own profiler calls it
  uint64_t (*bytes)(const Arguments& arguments) noexcept;
  uint32_t (*peer)(const Arguments& arguments) noexcept;
  bool gives_work = true;  // false: it is complete when it returns, and no address precedes the backend

  uint64_t backend(const Arguments& arguments) const noexcept { return arguments.word[gives_work ? 1 : 0]; }
};

// A virtual function of a backend: `_ZN4c10d16ProcessGroupGloo9allreduce…` is an operation of `Gloo`. nullptr: it is not an operation.
const Operation* find_operation(std::string_view mangled, std::string_view* backend) noexcept;

// Looks up torch's C interface, which gives the sizes of tensors. False: it is missing.
bool find_tensor_functions(void* library) noexcept;

}  // namespace aiflame::torch_comm
