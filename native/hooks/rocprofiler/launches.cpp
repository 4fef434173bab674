// Calls of HIP → `launches`, each with its stack, and `syncs`. Work on devices carries the number of the call that put it there.
#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/own_process.hpp"
#include "hooks/python/bridge.hpp"
#include "hooks/rocprofiler/graphs.hpp"
#include "hooks/rocprofiler/internal.hpp"
#include "hooks/shared/caller.hpp"
#include "sampler/capture.hpp"
#include "sampler/threads.hpp"
#include "sampler/torch_autograd.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"
#include "unwind/modules.hpp"

#include <algorithm>
#include <string_view>

namespace aiflame::rocprofiler {

namespace {

using schema::SyncKind;

constexpr uint32_t kMostNested = 8;
// A call makes others: the stack is captured once, by the outermost; each has its own number and row.
struct Calls {
  uint32_t depth;
  uint64_t frame;  // stack address of the outermost call: a call from a higher address means that a longjmp left this one
  uint32_t stack;  // 0: not recorded
  torch_autograd::Point point;
  uint64_t numbers[kMostNested];  // by depth: of the innermost call that has a row. 0: none has one
};
thread_local Calls calls;
thread_local uint64_t last_without_call = 0;

bool is_inner(uint64_t pc) noexcept { return is_inside(pc); }

// `number` 0: the call has no row.
void enter(const Registers& from, uint64_t number, uint64_t* begin_ns) noexcept {
  if (from.sp >= calls.frame) calls.depth = 0;
  *begin_ns = now_ns();
  if (calls.depth < kMostNested) calls.numbers[calls.depth] = number || !calls.depth ? number : calls.numbers[calls.depth - 1];
  if (calls.depth++) return;
  calls.frame = from.sp;
  Thread* thread = collecting() ? threads::self() : nullptr;
  calls.stack = thread && thread->row ? capture(*thread, from, skip_rocprofiler) : 0;
  if (calls.stack) calls.point = torch_autograd::now();
}

// Of a call between enter() and leave().
graphs::Maker maker() noexcept {
  const Thread* thread = calls.depth && calls.stack ? threads::self() : nullptr;
  if (!thread || !thread->row || !collecting()) return {};
  return {.thread = thread->row, .stack = calls.stack, .point = calls.point};
}

// `wait`: a SyncKind, 0: it does not wait. Without `written`, there is no row.
void leave(uint64_t correlation, uint64_t begin_ns, uint32_t wait, bool written) noexcept {
  if (!calls.depth) return;  // it began before us
  calls.depth--;
  Thread* thread = written && calls.stack ? threads::self() : nullptr;
  if (!thread || !thread->row || !collecting()) return;
  uint64_t end_ns = now_ns();
  {
    threads::Use use(*thread);
    thread->launches.append({.thread = thread->row,
                             .stack = calls.stack,
                             .api = static_cast<uint16_t>(kApi),
                             .autograd = calls.point.autograd,
                             .sequence = calls.point.sequence,
                             .begin_ns = begin_ns,
                             .end_ns = end_ns,
                             .correlation = correlation});
  }
  if (wait)
    spool::append(
        schema::SyncRecord{.kind = wait, .api = static_cast<uint32_t>(kApi), .correlation = correlation, .start_ns = begin_ns, .end_ns = end_ns});
  if (!calls.depth) bridge::poke(end_ns);
}

SyncKind wait_of(std::string_view name) noexcept {
  if (name.starts_with("hipStreamSynchronize")) return SyncKind::STREAM;
  if (name.starts_with("hipDeviceSynchronize") || name.starts_with("hipCtxSynchronize")) return SyncKind::CONTEXT;
  return name.starts_with("hipEventSynchronize") ? SyncKind::EVENT : SyncKind{};
}

bool launches(std::string_view name) noexcept {
  for (std::string_view beginning : {"hipLaunch", "hipModuleLaunch", "hipExtLaunch", "hipExtModuleLaunch", "hipHccModuleLaunch", "hipDrvLaunch",
                                     "hipGraphLaunch", "hipMemcpy", "hipMemset", "hipDrvMemcpy"})
    if (name.starts_with(beginning)) return !name.starts_with("hipLaunchHostFunc");
  return false;
}

// Written before the first call is heard. By rocprofiler's numbers.
struct Operation {
  bool launches, traced;
  uint8_t waits;  // a SyncKind, 0: it does not wait
  graphs::Step step;
};
AIFLAME_LARGE constinit Operation operations[kMostOperations]{};
AIFLAME_LARGE constinit int32_t chosen[kMostOperations]{};
size_t chosen_count = 0;

int choose(int32_t kind, int32_t operation, void*) {
  const char* name = nullptr;
  uint64_t length = 0;
  if (operation < 0 || operation >= kMostOperations || chosen_count == kMostOperations) return 0;
  if (sdk().query_callback_tracing_kind_operation_name(kind, operation, &name, &length) != kSuccess || !name) return 0;
  Operation& one = operations[operation];
  one = {.launches = launches(name),
         .traced = trace_operation(operation, name),
         .waits = static_cast<uint8_t>(wait_of(name)),
         .step = graphs::step_of(name)};
  if (one.launches || one.traced || one.waits || one.step != graphs::Step::NONE) chosen[chosen_count++] = operation;
  return 0;
}

void on_call(CallbackRecord record, uint64_t* user, void*) {
  if (record.kind != kHipRuntimeApi || record.operation < 0 || record.operation >= kMostOperations) return;
  const Operation& operation = operations[record.operation];
  bool is_launch = operation.launches || operation.waits, needs_stack = is_launch || graphs::makes_node(operation.step);
  const auto* call = static_cast<const ApiCall*>(record.payload);
  Registers from = hooks::caller();
  if (record.phase == kEnter) {
    if (operation.traced) begin_traced(from);
    if (needs_stack) enter(from, is_launch ? record.correlation.internal : 0, user);
    if (call && own_process()) graphs::before(operation.step, *call);
  }
  if (record.phase == kExit) {
    if (call && operation.step != graphs::Step::NONE && own_process()) graphs::after(operation.step, *call, maker());
    if (needs_stack) leave(record.correlation.internal, *user, operation.waits, is_launch);
    if (operation.traced) end_traced(record.operation, call);
  }
}

// Work carries the number of the innermost call in its thread, and that is a call of HSA where somebody traces those. We give it the number of the
// call whose stack we have.
int on_request(uint64_t, Handle, int32_t, int32_t, uint64_t, uint64_t* external, void*) {
  if (!calls.depth || !own_process()) return 1;
  *external = calls.numbers[std::min(calls.depth, kMostNested) - 1];
  return *external == 0;
}

}  // namespace

// Packets that are given to a queue at once have one number.
void add_launch_without_call(uint64_t correlation, const Registers& from) noexcept {
  if (calls.depth && from.sp < calls.frame) return;
  if (last_without_call == correlation) return;
  Thread* thread = threads::self();
  uint32_t stack = thread && thread->row ? capture(*thread, from, skip_rocprofiler) : 0;
  if (!stack) return;
  last_without_call = correlation;
  torch_autograd::Point point = torch_autograd::now();
  uint64_t now = now_ns();
  threads::Use use(*thread);
  thread->launches.append({.thread = thread->row,
                           .stack = stack,
                           .api = static_cast<uint16_t>(kApi),
                           .autograd = point.autograd,
                           .sequence = point.sequence,
                           .begin_ns = now,
                           .end_ns = now,
                           .correlation = correlation});
}

bool number_work(Handle context) noexcept {
  const int32_t of_work[] = {kOfMemoryCopy, kOfKernelDispatch};
  auto* request = sdk().configure_external_correlation_id_request_service;
  return request && request(context, of_work, 2, on_request, nullptr) == kSuccess;
}

Registers skip_rocprofiler(Thread& thread, const Registers& from) noexcept {
  constexpr uint32_t kMost = 16;
  if (!thread.unwinder || from.sp < thread.stack_low || from.sp >= thread.stack_high || !is_inner(from.pc)) return from;
  Caller callers[kMost];
  uint32_t count = thread.unwinder->callers(from, thread.stack_high, callers, kMost, is_inner);
  if (!count || is_inner(callers[count - 1].pc)) return from;
  uint64_t bp = from.bp;
  for (uint32_t at = 0; at < count; at++)
    if (callers[at].bp_slot) bp = *reinterpret_cast<const uint64_t*>(callers[at].bp_slot);
  return {.pc = callers[count - 1].pc, .sp = callers[count - 1].sp, .bp = bp, .all = nullptr, .exact = false};
}

// Operations are chosen by name, so that those of later releases are heard, too.
bool listen_to_calls(Handle context) noexcept {
  chosen_count = 0;
  if (sdk().iterate_callback_tracing_kind_operations(kHipRuntimeApi, choose, nullptr) != kSuccess || !chosen_count) return false;
  return sdk().configure_callback_tracing_service(context, kHipRuntimeApi, chosen, chosen_count, on_call, nullptr) == kSuccess;
}

}  // namespace aiflame::rocprofiler
