// Collectives of torch.distributed → `calls`: what its backends (c10d::ProcessGroupGloo …) are asked to do, until it is done, and waits for it.
//
// Python and C++ (the reducer of DistributedDataParallel, functional collectives) reach a backend through its virtual functions. Their
// mangled names say what each is called with, so a pointer to a function of a known name is a function of a known form, whatever version
// of torch it is of; what has another name is left alone. Nothing else of torch's is touched: its operators and its profiler never meet us.
#pragma once

namespace aiflame::torch_comm {

// Once torch's libraries are loaded. False: this torch is not known, which a note has said.
bool listen() noexcept;

}  // namespace aiflame::torch_comm
