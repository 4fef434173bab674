// Calls of HIP with their results → `calls`, where `--trace hip` asks for them: as many as the program makes. Those that the runtime makes of its own
// functions lie within another and are left out. The library of preloaded names (stand_in) leaves out each call that rocprofiler reported.
#include "records/calls.hpp"
#include "base/clock.hpp"
#include "base/large.hpp"
#include "hooks/rocprofiler/internal.hpp"
#include "hooks/shared/hip_calls.hpp"
#include "hooks/stand_in/hip_facts.hpp"
#include "sampler/capture.hpp"
#include "sampler/threads.hpp"
#include "spool/control.hpp"

#include <cstring>

namespace aiflame::rocprofiler {

namespace {

struct Open {
  uint32_t depth;
  uint64_t frame;  // stack address of the outermost call, as in launches.cpp
  calls::Begun begun;
};
thread_local Open open;

// Written before the first call is heard. All zero before: nothing is set up when the library loads.
struct Traced {
  calls::Function* function;
  stand_in::Answer answer;
  int8_t bytes, times;
  uint8_t scale;
};
AIFLAME_LARGE constinit Traced traced[kMostOperations]{};

uint64_t word(const HipCall& call, int8_t at) noexcept {
  uint64_t value = 0;
  size_t offset = static_cast<size_t>(at) * sizeof value;
  if (at >= 0 && offset + sizeof value <= argument_bytes(call)) memcpy(&value, call.arguments + offset, sizeof value);
  return value;
}

calls::Outcome outcome_of(const Traced& fact, const HipCall& call) noexcept {
  if (fact.answer == stand_in::Answer::NOTHING || !argument_bytes(call)) return {};
  uint32_t code;
  memcpy(&code, call.arguments + argument_bytes(call), sizeof code);
  bool failed = code != 0 && code != stand_in::kHipNotReady;
  uint64_t bytes = failed || fact.bytes < 0 ? 0 : word(call, fact.bytes) * (fact.times < 0 ? 1 : word(call, fact.times)) * fact.scale;
  return {.result = static_cast<int32_t>(code), .failed = failed, .bytes = bytes};
}

}  // namespace

bool trace_operation(int32_t operation, const char* name) noexcept {
  if (!control::has(schema::Feature::TRACE_HIP)) return false;
  stand_in::Fact fact = stand_in::hip_fact(name);
  traced[operation] = {calls::named(schema::CallBackend::HIP, name), fact.answer, fact.bytes, fact.times, fact.scale};
  return traced[operation].function;
}

void begin_traced(const Registers& from) noexcept {
  hooks::hip_calls_heard++;
  if (from.sp >= open.frame) open.depth = 0;
  if (open.depth++) return;
  open.frame = from.sp;
  open.begun = collecting() ? calls::begin(from, calls::Stack::NONE) : calls::Begun{};
  if (!open.begun.recording || !control::has(schema::Feature::TRACE_STACKS)) return;
  control::Use use;
  if (Thread* thread = threads::self()) open.begun.stack = capture(*thread, from, skip_rocprofiler);
  open.begun.begin_ns = now_ns();
}

void end_traced(int32_t operation, const HipCall* call) noexcept {
  if (!open.depth || --open.depth || !call) return;
  calls::end(open.begun, *traced[operation].function, outcome_of(traced[operation], *call));
}

}  // namespace aiflame::rocprofiler
