// Bytes of a call.
#pragma once
#include "mpi/arguments.hpp"

namespace aiflame::mpi {

// Only of calls that succeeded: whatever means something among their arguments is valid then, and MPI does not mind being asked.
uint64_t bytes_of(const Runtime& runtime, const Shape& shape, const Arguments& arguments) noexcept;

}  // namespace aiflame::mpi
