// A program may check by a weak reference whether its MPI has a function (mpi4py does so for MPI 4). Since we define every function of MPI, such
// references would not be null for functions that its MPI lacks; we reset them to null.
#pragma once
#include <cstdint>

namespace aiflame::mpi {

// Resets references in the library around this address, which was loaded after us and makes its first call.
void withdraw_from(uint64_t caller) noexcept;

}  // namespace aiflame::mpi
