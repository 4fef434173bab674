// The work of an OpenMP runtime as traced calls (with Feature TRACE_OPENMP): parallel regions on the thread that began them, work and waits on each
// thread. They nest on a thread, so each end belongs to the innermost begin.
#pragma once
#include "unwind/frames.hpp"

#include <cstdint>

namespace aiflame::openmp {

enum class Traced : uint32_t {
  PARALLEL,
  LOOP,
  SECTIONS,
  SINGLE,
  SINGLE_OTHER,
  WORKSHARE,
  DISTRIBUTE,
  TASKLOOP,
  SCOPE,
  BARRIER,
  TASKWAIT,
  TASKGROUP,
  REDUCTION,
  TARGET,
  TARGET_ENTER_DATA,
  TARGET_EXIT_DATA,
  TARGET_UPDATE,
};

// `bytes` of a later call is how much was moved since: target constructs report it.
void trace_begin(Traced what, const Registers& from) noexcept;
void trace_end(Traced what) noexcept;
// For the innermost open construct.
void trace_bytes(uint64_t bytes) noexcept;

}  // namespace aiflame::openmp
