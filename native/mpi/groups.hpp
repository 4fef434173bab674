// Communicators and windows → `groups`.
//
// Analyses tell groups with the same members by their order, so rows are written in the order in which groups were made, which is the
// same in all members. They are written when one is first used: until then a program may give it a name.
#pragma once
#include "mpi/runtime.hpp"
#include "records/calls.hpp"

namespace aiflame::mpi::groups {

enum class Sort : uint8_t { COMM, WINDOW };

// MPI answers from here on.
void begin(const calls::Interface& calls, Runtime& runtime) noexcept;
// A call that succeeded has made it.
void made(const calls::Interface& calls, Runtime& runtime, Sort sort, Word handle) noexcept;
// Its row; `valid`: it may be asked for what is not known yet.
uint32_t row(const calls::Interface& calls, Runtime& runtime, Sort sort, Word handle, bool valid) noexcept;
// It is about to go. Its row, the last time.
uint32_t freed(const calls::Interface& calls, Sort sort, Word handle) noexcept;

}  // namespace aiflame::mpi::groups
