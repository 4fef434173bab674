// Calls that are traced: shared by calls.cpp (HIP) and hsa.cpp.
#pragma once
#include "hooks/rocprofiler/api.hpp"
#include "hooks/stand_in/stand_in.hpp"
#include "records/calls.hpp"
#include "unwind/frames.hpp"

#include <cstdint>

namespace aiflame::rocprofiler {

// Calls of one runtime that are under way in a thread. Those that the runtime makes of its own functions lie within another and are left out.
struct OpenCalls {
  uint32_t depth;
  uint64_t frame;  // stack address of the outermost call, as in launches.cpp
  calls::Begun begun;
};
void begin(OpenCalls& open, const Registers& from) noexcept;
// True: the outermost call has ended.
inline bool end(OpenCalls& open) noexcept { return open.depth && --open.depth == 0; }

// All zero before it is written: nothing is set up when the library loads.
struct TracedFunction {
  calls::Function* function;  // nullptr: not traced
  stand_in::Answer answer;
  int8_t bytes, times;
  uint8_t scale;
};
inline TracedFunction traced_function(schema::CallBackend backend, const stand_in::Fact& fact, const char* name) noexcept {
  return {calls::named(backend, name), fact.answer, fact.bytes, fact.times, fact.scale};
}

// How calls of a runtime end.
struct Results {
  size_t bytes;  // of the record's last field
  bool (*is_failure)(uint32_t code) noexcept;
};
calls::Outcome outcome_of(const TracedFunction& function, const ApiCall& call, const Results& results) noexcept;

}  // namespace aiflame::rocprofiler
