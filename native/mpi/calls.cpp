// One call: the real function, and a row of `calls` about it.
#include "records/calls.hpp"

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

// The frame of the current call of this thread: Fortran's functions call C's, and MPI-IO calls communication.
thread_local const Frame* outermost = nullptr;

// A frame left by longjmp() or an exception lies above the caller's, or far away on another stack.
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

struct Site {
  const calls::Interface& calls;
  Runtime& runtime;
  const FunctionFacts& facts;
  const Arguments& arguments;
};

// Facts recorded before the call: a handle that it frees cannot be queried afterwards.
void tell_before(const Site& site, calls::Outcome& outcome) noexcept {
  const Shape& shape = site.facts.shape;
  if (shape.freed_comm >= 0) outcome.group = groups::freed(site.calls, groups::Sort::COMM, site.arguments.comm_behind(shape.freed_comm));
  if (shape.freed_window >= 0) outcome.group = groups::freed(site.calls, groups::Sort::WINDOW, site.arguments.window_behind(shape.freed_window));
  if (shape.peer >= 0)
    if (int rank = site.arguments.rank(shape.peer); rank >= 0) outcome.peer = static_cast<uint32_t>(rank);
}

void tell_after(const Site& site, int result, calls::Outcome& outcome) noexcept {
  const Shape& shape = site.facts.shape;
  outcome.result = result;
  outcome.failed = result != 0;
  if (!outcome.failed) outcome.bytes = bytes_of(site.runtime, shape, site.arguments);
  if (shape.comm >= 0) outcome.group = groups::row(site.calls, site.runtime, groups::Sort::COMM, site.arguments.comm(shape.comm), !outcome.failed);
  if (shape.window >= 0)
    outcome.group = groups::row(site.calls, site.runtime, groups::Sort::WINDOW, site.arguments.window(shape.window), !outcome.failed);
}

// Adds the groups that the call has made.
void note_groups(const Site& site) noexcept {
  const Shape& shape = site.facts.shape;
  if (shape.starts) groups::begin(site.calls, site.runtime);
  if (shape.new_comm >= 0) groups::made(site.calls, site.runtime, groups::Sort::COMM, site.arguments.comm_behind(shape.new_comm));
  if (shape.new_window >= 0) groups::made(site.calls, site.runtime, groups::Sort::WINDOW, site.arguments.window_behind(shape.new_window));
}

Word traced(const calls::Interface& calls, Runtime& runtime, Real* real, const Frame& frame, size_t at, Language language) {
  const FunctionFacts& facts = kFunctions[at];
  Arguments arguments(runtime, frame, language);
  Site site{calls, runtime, facts, arguments};
  calls::Function& function = language == LARGE ? names[at].large : names[at].plain;
  calls::Outcome outcome;
  tell_before(site, outcome);
  const calls::Begun begun = calls.begin(frame.caller(), facts.shape.poll ? calls::Stack::ON_REQUEST : calls::Stack::ALWAYS);
  if (!facts.shape.returns) calls.end_at(begun, function, outcome, begun.begin_ns);
  outermost = &frame;
  Word returned = forward(real, frame);
  outermost = nullptr;
  if (!facts.shape.returns || !begun.recording) return returned;
  uint64_t end_ns = now_ns();
  tell_after(site, arguments.result(returned, facts.words), outcome);
  calls.end_at(begun, function, outcome, end_ns);
  if (!outcome.failed) note_groups(site);
  return returned;
}

}  // namespace

}  // namespace aiflame::mpi

using namespace aiflame::mpi;

// Not noexcept: an error handler of the program may throw.
uint64_t aiflame_mpi_call(Frame* frame, uint32_t entry) {
  size_t function = entry / 8;
  auto language = static_cast<Language>(entry % 8);
  Runtime& runtime = Runtime::of(frame->pc);
  Runtime::Behind behind = runtime.behind(function, language, frame->pc);
  if (!behind.function) return kUnknownError;
  const aiflame::calls::Interface* calls = !behind.of_mpi || inside_another(frame) ? nullptr : collector();
  if (!calls || !calls->traced(aiflame::schema::Feature::TRACE_MPI)) return forward(behind.function, *frame);
  return traced(*calls, runtime, behind.function, *frame, function, language);
}
