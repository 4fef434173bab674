// AMD's GPUs: rocprofiler-sdk calls rocprofiler_configure(), which the collector exports, when the program loads HIP or HSA.
#pragma once

namespace aiflame::rocprofiler {

// The recording ends: the samples that rocprofiler still holds are written.
void stop() noexcept;
void forget_rows() noexcept;
// HIP does not work in the child of a fork: it is never called there.
void after_fork_child() noexcept;

}  // namespace aiflame::rocprofiler
