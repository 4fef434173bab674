// Calls of HIP may be seen by two hooks: rocprofiler, which counts here those that it sees, and preloaded names.
#pragma once
#include <cstdint>

namespace aiflame::hooks {

// How many calls of HIP rocprofiler has reported in this thread, where calls are traced.
inline constinit thread_local uint32_t hip_calls_heard = 0;

}  // namespace aiflame::hooks
