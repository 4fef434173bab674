// AMD's GPUs, by rocprofiler-sdk. Its runtime asks dlsym() for tools when the program loads HIP or HSA; the collector's dlsym() answers.
#pragma once

namespace aiflame::rocprofiler {

// The recording ends: the samples that rocprofiler still holds are written.
void stop() noexcept;
void forget_rows() noexcept;
// HIP does not work in the child of a fork: it is never called there.
void after_fork_child() noexcept;

}  // namespace aiflame::rocprofiler
