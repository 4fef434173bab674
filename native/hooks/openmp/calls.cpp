#include "hooks/openmp/calls.hpp"

#include "base/large.hpp"
#include "base/sys.hpp"
#include "records/calls.hpp"
#include "sampler/thread_slots.hpp"
#include "sampler/threads.hpp"
#include "spool/control.hpp"

#include <atomic>
#include <iterator>

namespace aiflame::openmp {

namespace {

constexpr char kNames[][28] = {
    "parallel", "loop",      "sections",  "single", "single (of another thread)", "workshare",        "distribute",    "taskloop", "scope", "barrier",
    "taskwait", "taskgroup", "reduction", "target", "target enter data",          "target exit data", "target update",
};
constexpr size_t kTraced = std::size(kNames);
static_assert(kTraced == static_cast<size_t>(Traced::TARGET_UPDATE) + 1);

// Constructed at the first traced event: as constants, each would be relocated at the start of every program.
AIFLAME_LARGE constinit std::atomic<calls::Function*> functions[kTraced];

// nullptr where there is no memory. All threads of a team come here at once and none waits for another: one object is used, the others are wasted.
calls::Function* function_of(Traced what) noexcept {
  auto number = static_cast<uint32_t>(what);
  calls::Function* known = functions[number].load(std::memory_order_acquire);
  if (known) [[likely]]
    return known;
  calls::Function* made = calls::make(schema::CallBackend::OPENMP, kNames[number]);
  return functions[number].compare_exchange_strong(known, made, std::memory_order_acq_rel) ? made : known;
}

struct Open {
  Traced what;
  uint64_t bytes;
  calls::Begun begun;
};
struct Nest {
  static constexpr uint32_t kDeepest = 64;
  uint32_t depth;
  Open open[kDeepest];
};

// By the slot of the thread: thread-local memory of a library that is loaded late is scarce.
AIFLAME_LARGE constinit std::atomic<Nest*> kept[thread_slots::kSlots];
// The slot of this thread's nest, plus 1. A new thread has none, even if another thread's slot is free.
thread_local uint32_t mine;

Nest* nest() noexcept {
  Thread* thread = threads::self();
  if (!thread) return nullptr;
  Nest* found = kept[thread->slot].load(std::memory_order_relaxed);
  if (mine == thread->slot + 1) [[likely]]
    return found;
  if (!found) {
    found = static_cast<Nest*>(sys::map_memory(sizeof(Nest)));
    if (!found) return nullptr;
    kept[thread->slot].store(found, std::memory_order_relaxed);
  }
  found->depth = 0;
  mine = thread->slot + 1;
  return found;
}

bool traced() noexcept { return control::recording() && control::has(schema::Feature::TRACE_OPENMP); }

}  // namespace

void trace_begin(Traced what, const Registers& from) noexcept {
  Nest* open_now = traced() ? nest() : nullptr;
  if (!open_now || open_now->depth == Nest::kDeepest) return;
  open_now->open[open_now->depth++] = {what, 0, calls::begin(from, calls::Stack::ON_REQUEST)};
}

void trace_end(Traced what) noexcept {
  Nest* open_now = traced() ? nest() : nullptr;
  // The runtime reports no end for constructs that an exception or a cancellation left: they end with the one around them, without a row.
  uint32_t at = open_now ? open_now->depth : 0;
  while (at > 0 && open_now->open[at - 1].what != what) at--;
  if (at == 0) return;
  open_now->depth = at - 1;
  const Open& ended = open_now->open[at - 1];
  if (calls::Function* function = function_of(what)) calls::end(ended.begun, *function, {.bytes = ended.bytes});
}

void trace_bytes(uint64_t bytes) noexcept {
  Nest* open_now = traced() ? nest() : nullptr;
  if (open_now && open_now->depth > 0) open_now->open[open_now->depth - 1].bytes += bytes;
}

}  // namespace aiflame::openmp
