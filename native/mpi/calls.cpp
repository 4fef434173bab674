// One call: the real function, and a row of `calls` about it.
#include "hooks/calls.hpp"

#include "mpi/amounts.hpp"
#include "mpi/entries.hpp"
#include "mpi/groups.hpp"

#include <dlfcn.h>
#include <ctime>

namespace aiflame::mpi {

namespace {

constexpr Word kUnknownError = 16;  // any number but 0: there is no MPI behind us

// Rows of `call_names`: by function, with and without large counts. Fortran's calls have C's name, as they have its meaning.
struct Names {
  calls::Function plain, large;
};
constinit Names names[kFunctionCount] = {
#define SMALL(name, small, upper, words, shape) {{schema::CallBackend::MPI, "MPI_" #name}, {schema::CallBackend::MPI, ""}},
#define BOTH(name, small, upper, words, shape) {{schema::CallBackend::MPI, "MPI_" #name}, {schema::CallBackend::MPI, "MPI_" #name "_c"}},
#include "mpi/functions.inc"
#undef SMALL
#undef BOTH
};

// The frame of the call that is under way in this thread: Fortran's functions call C's, and MPI-IO those of communication.
thread_local const Frame* outermost = nullptr;

// One that was left by longjmp() or an exception lies above the caller's, or is far away: on a stack that was switched to meanwhile.
constexpr uint64_t kDeepest = 8 << 20;
bool inside_another(const Frame* frame) noexcept {
  return frame < outermost && reinterpret_cast<uint64_t>(outermost) - reinterpret_cast<uint64_t>(frame) < kDeepest;
}

const calls::Interface* collector() noexcept {
  static std::atomic<const calls::Interface*> known{nullptr};
  const calls::Interface* found = known.load(std::memory_order_acquire);
  if (!found) {
    auto* interface = reinterpret_cast<const calls::Interface* (*)()>(dlsym(RTLD_DEFAULT, "aiflame_calls"));
    if (interface) known.store(found = interface(), std::memory_order_release);
  }
  return found;
}

uint64_t now_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

__attribute__((always_inline)) inline Word forward(Real* real, const Frame& frame) {
  const uint64_t *in = frame.registers, *on = frame.stack;
  return real(in[0], in[1], in[2], in[3], in[4], in[5], on[0], on[1], on[2], on[3], on[4], on[5], on[6], on[7], on[8], on[9]);
}

struct Call {
  const calls::Interface& calls;
  Runtime& runtime;
  const FunctionFacts& facts;
  const Shape& shape;
  Arguments arguments;
  calls::Function& function;
  calls::Begun begun;
  calls::Outcome outcome;

  // Who it is with, when what is freed can still be asked for.
  void before() noexcept {
    if (shape.freed_comm >= 0) outcome.group = groups::freed(calls, runtime, groups::Sort::COMM, arguments.comm_behind(shape.freed_comm));
    if (shape.freed_window >= 0) outcome.group = groups::freed(calls, runtime, groups::Sort::WINDOW, arguments.window_behind(shape.freed_window));
    if (shape.peer >= 0)
      if (int rank = arguments.rank(shape.peer); rank >= 0) outcome.peer = static_cast<uint32_t>(rank);
  }

  void after(Word returned, uint64_t end_ns) noexcept {
    outcome.result = arguments.result(returned, facts.words);
    outcome.failed = outcome.result != 0;
    if (!outcome.failed) outcome.bytes = bytes_of(runtime, shape, arguments);
    if (shape.comm >= 0) outcome.group = groups::row(calls, runtime, groups::Sort::COMM, arguments.comm(shape.comm), !outcome.failed);
    if (shape.window >= 0) outcome.group = groups::row(calls, runtime, groups::Sort::WINDOW, arguments.window(shape.window), !outcome.failed);
    calls.end_at(begun, function, outcome, end_ns);
    if (outcome.failed) return;
    if (shape.starts) groups::begin(calls, runtime);
    if (shape.new_comm >= 0) groups::made(calls, runtime, groups::Sort::COMM, arguments.comm_behind(shape.new_comm));
    if (shape.new_window >= 0) groups::made(calls, runtime, groups::Sort::WINDOW, arguments.window_behind(shape.new_window));
  }
};

Word traced(const calls::Interface& calls, Runtime& runtime, Real* real, const Frame& frame, size_t at, Language language) {
  const FunctionFacts& facts = kFunctions[at];
  const Shape& shape = facts.shape;
  Call call{calls, runtime, facts, shape, {runtime, frame, language}, language == LARGE ? names[at].large : names[at].plain, {}, {}};
  call.before();
  call.begun = calls.begin(frame.caller(), shape.poll ? calls::Stack::ON_REQUEST : calls::Stack::ALWAYS);
  if (!shape.returns) calls.end_at(call.begun, call.function, call.outcome, call.begun.begin_ns);
  outermost = &frame;
  Word returned = forward(real, frame);
  outermost = nullptr;
  uint64_t end_ns = now_ns();
  if (shape.returns && call.begun.recording) call.after(returned, end_ns);
  return returned;
}

}  // namespace

}  // namespace aiflame::mpi

using namespace aiflame::mpi;

// Not noexcept: an error handler of the program may throw.
uint64_t aiflame_mpi_call(Frame* frame, uint32_t entry) {
  size_t function = entry / 8;
  auto language = static_cast<Language>(entry % 8);
  Runtime* runtime = Runtime::of(frame->pc);
  Real* real = runtime ? runtime->real(function, language, frame->pc) : nullptr;
  if (!real) return kUnknownError;
  const aiflame::calls::Interface* calls = inside_another(frame) ? nullptr : collector();
  if (!calls || !calls->traced(aiflame::schema::Feature::TRACE_MPI)) return forward(real, *frame);
  return traced(*calls, *runtime, real, *frame, function, language);
}
