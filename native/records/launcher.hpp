// The rank of this process in a parallel job, from the variables of its launcher.
#pragma once

namespace aiflame::launcher {

// Writes the process's row of `ranks`, if it belongs to a job.
void write_rank() noexcept;

}  // namespace aiflame::launcher
