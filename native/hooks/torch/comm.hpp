// Collectives of torch.distributed → `calls`: operations of its backends (c10d::ProcessGroupGloo …) from call to completion, and waits for them.
//
// Python and C++ (the reducer of DistributedDataParallel, functional collectives) call a backend through its virtual functions. A mangled name states
// the arguments of its function, in every version of torch, so we replace pointers to functions with known names by pointers to ours, and leave all
// others alone. Nothing else in torch is changed: neither its operators nor its profiler.
#pragma once

namespace aiflame::torch_comm {

// Call once torch's libraries are loaded. False: this torch has none of the functions, and a note has said so.
bool listen() noexcept;

}  // namespace aiflame::torch_comm
