// A program may ask by a weak reference whether its MPI has a function (mpi4py does so for MPI 4): since we have them all, it would find
// those that its MPI lacks. Such references are led back to nothing.
#pragma once
#include <cstdint>

namespace aiflame::mpi {

// In the library that this address lies in: it came after us, and calls for the first time.
void withdraw_from(uint64_t caller) noexcept;

}  // namespace aiflame::mpi
