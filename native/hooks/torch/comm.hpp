// Collectives of torch.distributed → `calls`: operations of its backends (c10d::ProcessGroupGloo …) from call to completion, and waits for
// them.
//
// Python and C++ (the reducer of DistributedDataParallel, functional collectives) reach a backend through its virtual functions. A mangled
// name says what arguments its function takes, in every version of torch, so we lead pointers to functions with known names to ours and
// leave all others alone. Nothing else in torch is touched: neither its operators nor its profiler.
#pragma once

namespace aiflame::torch_comm {

// Call once torch's libraries are loaded. False: this torch has none of the functions, and a note has said so.
bool listen() noexcept;

}  // namespace aiflame::torch_comm
