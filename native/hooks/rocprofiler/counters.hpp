// Counters of whole GPUs by rocprofiler's device counting service → `gpu_counters`. Only where `--gpu-counters on` asks for them.
#pragma once
#include "hooks/rocprofiler/api.hpp"

namespace aiflame::rocprofiler::counters {

void add_agent(const Agent& agent) noexcept;
// Chooses the counters of each GPU. False: there are none.
bool configure() noexcept;
// At each kernel: the first one of a recording starts to count, soon after it.
void begin() noexcept;
// Writes the last counts.
void end() noexcept;

}  // namespace aiflame::rocprofiler::counters
