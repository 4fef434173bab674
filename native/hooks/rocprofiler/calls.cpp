// Calls of HIP with their results → `calls`, where `--trace hip` asks for them: as many as the program makes. The library of preloaded names
// (stand_in) leaves out each call that rocprofiler reported.
#include "hooks/rocprofiler/calls.hpp"

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

thread_local OpenCalls open;
// Written before the first call is heard.
AIFLAME_LARGE constinit TracedFunction traced[kMostOperations]{};

uint64_t word(const ApiCall& call, int8_t at, size_t bytes) noexcept {
  uint64_t value = 0;
  size_t offset = static_cast<size_t>(at) * sizeof value;
  if (at >= 0 && offset + sizeof value <= bytes) memcpy(&value, call.arguments + offset, sizeof value);
  return value;
}

bool is_hip_failure(uint32_t code) noexcept { return code != 0 && code != stand_in::kHipNotReady; }

}  // namespace

void begin(OpenCalls& open, const Registers& from) noexcept {
  if (from.sp >= open.frame) open.depth = 0;
  if (open.depth++) return;
  open.frame = from.sp;
  open.begun = collecting() ? calls::begin(from, calls::Stack::NONE) : calls::Begun{};
  if (!open.begun.recording || !control::has(schema::Feature::TRACE_STACKS)) return;
  control::Use use;
  if (Thread* thread = threads::self()) open.begun.stack = capture(*thread, from, skip_rocprofiler);
  open.begun.begin_ns = now_ns();
}

calls::Outcome outcome_of(const TracedFunction& function, const ApiCall& call, const Results& results) noexcept {
  size_t arguments = argument_bytes(call, results.bytes);
  if (function.answer == stand_in::Answer::NOTHING || !arguments) return {};
  uint32_t code;
  memcpy(&code, call.arguments + arguments, sizeof code);
  bool failed = results.is_failure(code);
  uint64_t bytes = 0;
  if (!failed && function.bytes >= 0)
    bytes = word(call, function.bytes, arguments) * (function.times < 0 ? 1 : word(call, function.times, arguments)) * function.scale;
  return {.result = static_cast<int32_t>(code), .failed = failed, .bytes = bytes};
}

bool trace_operation(int32_t operation, const char* name) noexcept {
  if (!control::has(schema::Feature::TRACE_HIP)) return false;
  traced[operation] = traced_function(schema::CallBackend::HIP, stand_in::hip_fact(name), name);
  return traced[operation].function;
}

void begin_traced(const Registers& from) noexcept {
  hooks::hip_calls_heard++;
  begin(open, from);
}

void end_traced(int32_t operation, const ApiCall* call) noexcept {
  if (end(open) && call) calls::end(open.begun, *traced[operation].function, outcome_of(traced[operation], *call, {kHipResultBytes, is_hip_failure}));
}

}  // namespace aiflame::rocprofiler
