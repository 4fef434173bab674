// Communicators and windows → `groups`.
//
// Analyses distinguish groups with the same members by their order, so rows are written in the order in which groups were made, which is the same for
// all members. They are written when one of them is first used: until then the program may name it.
#pragma once
#include "mpi/runtime.hpp"
#include "records/calls.hpp"

namespace aiflame::mpi::groups {

enum class Sort : uint8_t { COMM, WINDOW };

// Call it when MPI can be queried.
void begin(const calls::Interface& calls, Runtime& runtime) noexcept;
// Called when a successful call has made a group.
void made(const calls::Interface& calls, Runtime& runtime, Sort sort, Word handle) noexcept;
// The row of a group; `valid`: MPI may be queried about it.
uint32_t row(const calls::Interface& calls, Runtime& runtime, Sort sort, Word handle, bool valid) noexcept;
// The row of a group that is about to be freed.
uint32_t freed(const calls::Interface& calls, Sort sort, Word handle) noexcept;

}  // namespace aiflame::mpi::groups
