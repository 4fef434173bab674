#include "hooks/torch/comm.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "hooks/shared/caller.hpp"
#include "hooks/shared/late_binding.hpp"
#include "hooks/torch/comm_operations.hpp"
#include "hooks/torch/comm_pending.hpp"
#include "records/calls.hpp"
#include "sampler/torch_autograd.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <dlfcn.h>
#include <link.h>
#include <cstring>
#include <utility>

namespace aiflame::torch_comm {

namespace {

// All functions that we stand before have the form of one that takes seven words.
using Real = uint64_t (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

enum class Is { OPERATION, WAIT, FINALIZE };

// A hooked function of torch: hook_of[at] goes to slots[at].
struct Slot {
  const char* mangled;
  Real real;
  calls::Function* function;
  const Operation* operation;  // of Is::OPERATION
  Is is;
  bool asynchronous;  // the operation may go on after the call; finish() reports its end
};
constexpr size_t kSlots = 128;
AIFLAME_LARGE constinit Slot slots[kSlots];
size_t slot_count;

// A call of a hooked function, on the stack of its thread.
struct Open {
  Open* outer;
  const Slot* slot;
  calls::Begun begun;
  calls::Outcome outcome;
  uint64_t work;  // c10d::Work that came into being meanwhile and is among the pending
};
thread_local Open* innermost;

// std::exception_ptr: one pointer. It is given by address, since it has a destructor.
using Exception = void* const*;
void (*finish)(void* work, Exception exception);
void (*finish_and_throw)(void* work, Exception exception);
void (*make_work)(void* work, int rank, uint32_t type, const char* title, const void* inputs);
bool finish_is_led;

bool traced() noexcept { return control::recording() && control::has(schema::Feature::TRACE_TORCH); }

void enter(Open& open) noexcept {
  open.outer = innermost;
  innermost = &open;
}

void leave(Open& open) noexcept {
  innermost = open.outer;
  if (open.work && open.slot->asynchronous) return;  // its end is recorded by finish()
  Pending dropped;
  if (open.work) take(open.work, &dropped);
  open.outcome.kind = schema::CallKind::BLOCKING;
  calls::end(open.begun, *open.slot->function, open.outcome);
}

// An exception passes through a call.
void abandon(Open& open) noexcept {
  Pending dropped;
  if (open.work) take(open.work, &dropped);
  open.work = 0;
  open.outcome.failed = true;
  leave(open);
}

// The personality routine of call_through(): notices that an exception passes. It catches none, since that would take a C++ runtime beside
// the program's.
int passed_through(int, int actions, uint64_t, void*, void*) noexcept {
  constexpr int kCleanUp = 2, kContinue = 8;  // _UA_CLEANUP_PHASE, _URC_CONTINUE_UNWIND
  if ((actions & kCleanUp) && innermost) abandon(*innermost);
  return kContinue;
}

}  // namespace
}  // namespace aiflame::torch_comm

// The frames of call_through() name this pointer as their personality routine (`.cfi_personality`).
extern "C" __attribute__((visibility("hidden"), used)) int (*const aiflame_torch_comm_personality)(int, int, uint64_t, void*,
                                                                                                   void*) = aiflame::torch_comm::passed_through;

namespace aiflame::torch_comm {

namespace {

__attribute__((noinline, noclone)) uint64_t call_through(Open& open, const Arguments& given) {
  asm volatile(".cfi_personality 0x9b, aiflame_torch_comm_personality");
  const uint64_t (&word)[7] = given.word;
  enter(open);
  uint64_t result = open.slot->real(word[0], word[1], word[2], word[3], word[4], word[5], word[6]);
  leave(open);
  return result;
}

calls::Outcome outcome_of(const Slot& slot, const Arguments& given) noexcept {
  if (slot.is == Is::WAIT) return {.group = group_of(given.word[0])};
  if (slot.is == Is::FINALIZE) return {};
  return {.kind = slot.asynchronous ? schema::CallKind::ASYNC : schema::CallKind::BLOCKING,
          .bytes = slot.operation->bytes(given),
          .group = calls::find_group(schema::CallBackend::TORCH, slot.operation->backend(given)),
          .peer = slot.operation->peer(given)};
}

// Operations within an operation (a monitored barrier sends and receives) give no rows.
bool within_operation() noexcept { return innermost && innermost->slot->is == Is::OPERATION; }

uint64_t called(const Slot& slot, const Registers& caller, const Arguments& given) {
  const uint64_t (&word)[7] = given.word;
  if (!traced() || within_operation()) return slot.real(word[0], word[1], word[2], word[3], word[4], word[5], word[6]);
  Open open{.outer = nullptr, .slot = &slot, .begun = calls::begin(caller, calls::Stack::ALWAYS), .outcome = outcome_of(slot, given), .work = 0};
  if (slot.is == Is::FINALIZE) open.begun.point = torch_autograd::after_backward();
  return call_through(open, given);
}

template <size_t kAt>
uint64_t hook(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g) {
  return called(slots[kAt], hooks::caller(), {a, b, c, d, e, f, g});
}

// Written when torch's libraries are there: as constants each would be relocated at the start of every program.
AIFLAME_LARGE Real hook_of[kSlots];

template <size_t... kAt>
void write_hooks(std::index_sequence<kAt...>) noexcept {
  ((hook_of[kAt] = hook<kAt>), ...);
}

// --- c10d::Work ----------------------------------------------------------------------------------------------------------

void end_stale(const Pending& stale) noexcept {
  if (stale.function) calls::end_at(stale.begun, *stale.function, stale.outcome, stale.handed_over_ns);
}

// The constructor of Work: the thread that requested the operation is still in the call, and no thread works on it yet. The last Work that
// a call makes is its result.
void work_made(void* work, int rank, uint32_t type, const char* title, const void* inputs) {
  make_work(work, rank, type, title, inputs);
  Open* open = innermost;
  if (!open || open->slot->is != Is::OPERATION || !open->slot->asynchronous) return;
  Pending earlier;
  if (open->work) take(open->work, &earlier);
  auto address = reinterpret_cast<uint64_t>(work);
  bool added = add(address, {open->begun, open->slot->function, open->outcome, now_ns()}, &earlier);
  end_stale(earlier);
  open->work = added ? address : 0;
}

void work_done(void* work, Exception exception, uint64_t now) noexcept {
  Pending pending;
  if (!take(reinterpret_cast<uint64_t>(work), &pending)) return;
  pending.outcome.failed = *exception != nullptr;
  calls::end_at(pending.begun, *pending.function, pending.outcome, now);
}

// Before the real function: it may wake a thread that frees the work.
void finished(void* work, Exception exception) {
  work_done(work, exception, now_ns());
  finish(work, exception);
}

void finished_and_thrown(void* work, Exception exception) {
  work_done(work, exception, now_ns());
  finish_and_throw(work, exception);
}

// --- torch's autograd ----------------------------------------------------------------------------------------------------

// The reducer is called by nodes without a number, which add gradients up: whose gradient it was says the node before.
void (*evaluate)(void* engine, void* task, void* node, void* inputs, void* queue);

void evaluated(void* engine, void* task, void* node, void* inputs, void* queue) {
  torch_autograd::runs(node);
  evaluate(engine, task, node, inputs, queue);
}

// --- Which functions are led to us ---------------------------------------------------------------------------------------

constexpr const char* kMakeWork = "_ZN4c10d4WorkC2Ei";
constexpr const char* kFinish = "_ZN4c10d4Work6finishENSt15__exception_ptr13exception_ptrE";
constexpr const char* kFinishAndThrow = "_ZN4c10d4Work14finishAndThrowENSt15__exception_ptr13exception_ptrE";
constexpr const char* kFinalize = "_ZN4c10d7Reducer17finalize_backwardEv";

constexpr const char* kEvaluate =
    "_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE";

void* libtorch;

// In capitals in torch; `gloo:all_reduce` in its profiler.
calls::Function* function_of(std::string_view backend, const char* name) noexcept {
  char text[128];
  size_t length = 0;
  for (char letter : backend.substr(0, 32)) text[length++] = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
  text[length++] = ':';
  for (; *name && length < sizeof text; name++) text[length++] = *name;
  return calls::named(schema::CallBackend::TORCH, {text, length});
}

void* take_slot(const Slot& wanted) noexcept {
  for (size_t at = 0; at < slot_count; at++)
    if (strcmp(slots[at].mangled, wanted.mangled) == 0) return reinterpret_cast<void*>(hook_of[at]);
  if (slot_count == kSlots || !wanted.real || !wanted.function) return nullptr;
  if (slot_count == 0) write_hooks(std::make_index_sequence<kSlots>());
  slots[slot_count] = wanted;
  return reinterpret_cast<void*>(hook_of[slot_count++]);
}

// c10d::Work::wait() and its overrides.
bool is_wait(std::string_view mangled) noexcept {
  return mangled.ends_with("4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE") && mangled.find("Work4wait") != mangled.npos;
}

void* pointer(const char* mangled, void* real) noexcept {
  auto function = reinterpret_cast<Real>(real);
  if (is_wait(mangled)) return take_slot({mangled, function, calls::named(schema::CallBackend::TORCH, "c10d:wait"), nullptr, Is::WAIT, false});
  std::string_view backend;
  const Operation* operation = find_operation(mangled, &backend);
  if (!operation || backend == "Wrapper") return nullptr;                                // the wrapper asks the real one
  bool asynchronous = operation->gives_work && (backend == "Gloo" || backend == "MPI");  // those of devices never say so on the host
  return take_slot({mangled, function, function_of(backend, operation->name), operation, Is::OPERATION, asynchronous});
}

template <class Function>
void find(const char* mangled, Function** out) noexcept {
  *out = reinterpret_cast<Function*>(dlsym(libtorch, mangled));
}

void* function(const char* mangled) noexcept {
  if (strcmp(mangled, kFinish) == 0) {
    finish_is_led = true;
    return reinterpret_cast<void*>(finished);
  }
  if (strcmp(mangled, kFinishAndThrow) == 0) return reinterpret_cast<void*>(finished_and_thrown);
  if (strncmp(mangled, kMakeWork, strlen(kMakeWork)) == 0) {
    if (!make_work) find(mangled, &make_work);
    return make_work ? reinterpret_cast<void*>(work_made) : nullptr;
  }
  if (strcmp(mangled, kFinalize) == 0) {
    Real real = nullptr;
    find(mangled, reinterpret_cast<void**>(&real));
    return take_slot({kFinalize, real, calls::named(schema::CallBackend::TORCH, "c10d:wait_for_buckets"), nullptr, Is::FINALIZE, false});
  }
  return nullptr;
}

void* engines(const char* mangled) noexcept { return strcmp(mangled, kEvaluate) == 0 ? reinterpret_cast<void*>(evaluated) : nullptr; }

int is_libtorch(dl_phdr_info* info, size_t, void* data) noexcept {
  const char* name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : nullptr;
  if (!name || strcmp(name, "/libtorch_cpu.so") != 0) return 0;
  *static_cast<const char**>(data) = info->dlpi_name;
  return 1;
}

bool lead_to_us() noexcept {
  const char* path = nullptr;
  dl_iterate_phdr(is_libtorch, &path);
  libtorch = path ? dlopen(path, RTLD_NOLOAD | RTLD_LAZY) : nullptr;
  if (!libtorch || !find_tensor_functions(libtorch)) return false;
  find(kFinish, &finish);
  find(kFinishAndThrow, &finish_and_throw);
  if (!finish || !finish_and_throw) return false;
  hooks::lead_callers("_ZN4c10d", function);
  if (!make_work || !finish_is_led) return false;
  hooks::lead_pointers("_ZN4c10d", pointer);
  find(kEvaluate, &evaluate);
  if (evaluate) hooks::lead_callers(kEvaluate, engines);
  return slot_count > 0;
}

}  // namespace

bool listen() noexcept {
  static const bool known = [] {
    bool found = lead_to_us();
    if (!found) spool::note("torch.distributed is not traced: this version of torch is not known");
    return found;
  }();
  return known;
}

}  // namespace aiflame::torch_comm
