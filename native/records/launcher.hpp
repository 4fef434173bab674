// Where this process stands in a parallel job, as the variables of its launcher say.
#pragma once

namespace aiflame::launcher {

// The process's row of `ranks`, if it is in a job.
void write_rank() noexcept;

}  // namespace aiflame::launcher
