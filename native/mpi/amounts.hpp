// The number of bytes that a call moves.
#pragma once
#include "mpi/arguments.hpp"

namespace aiflame::mpi {

// Only for calls that succeeded: their arguments are valid, and MPI can be queried about them.
uint64_t bytes_of(const Runtime& runtime, const Shape& shape, const Arguments& arguments) noexcept;

}  // namespace aiflame::mpi
