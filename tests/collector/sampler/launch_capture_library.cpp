// The work of a launch's callback before the driver goes on, timed: the capture of its stack, and the row of the launch.
//
// The whole collector as a library for any Python process: the caller starts a recording by aiflame_start(). Preloaded, it makes a launch of
// each piece of aligned memory that the process asks for, as libtorch does for each tensor on a CPU: stacks of real operators.
#include "base/clock.hpp"
#include "hooks/shared/caller.hpp"
#include "sampler/capture.hpp"
#include "spool/spool.hpp"
#include "unwind/generation.hpp"

#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>

using namespace aiflame;

namespace {

struct Run {
  uint32_t* ns;
  uint32_t room, done;
  uint32_t frames;  // of the last stack
  uint64_t correlation;
  char* memory;  // walked over before each capture, so that nothing of the last one is in the nearest cache
  size_t bytes;
};

struct Took {
  uint32_t stack, ns;
};

__attribute__((always_inline)) inline Took timed_launch(uint64_t correlation) noexcept {
  uint64_t begin = now_ns();
  Thread* thread = threads::self();
  if (!thread) return {};
  uint32_t stack = capture(*thread, hooks::caller());
  threads::Use use(*thread);
  thread->launches.append({.thread = thread->row,
                           .stack = stack,
                           .api = static_cast<uint16_t>(schema::GpuApi::CUDA),
                           .begin_ns = begin,
                           .end_ns = begin,
                           .correlation = correlation});
  return {stack, static_cast<uint32_t>(now_ns() - begin)};
}

__attribute__((noinline)) void launch(Run& run) noexcept {
  for (size_t at = 0; at < run.bytes; at += 64) run.memory[at]++;
  Took took = timed_launch(++run.correlation);
  run.frames = threads::self() ? threads::self()->last.count : 0;
  if (took.stack && run.done < run.room) run.ns[run.done++] = took.ns;
}

// The measurements that posix_memalign() writes while a caller has asked for them.
struct Listening {
  std::atomic<uint32_t*> ns;
  std::atomic<uint32_t> room, done;
};
constinit Listening listening{};

// The innermost frames differ from launch to launch, as those of an operator's kernels do.
__attribute__((noinline)) void one(Run& run) noexcept {
  launch(run);
  asm volatile("");
}
__attribute__((noinline)) void other(Run& run) noexcept {
  one(run);
  asm volatile("");
}
__attribute__((noinline)) void third(Run& run) noexcept {
  other(run);
  asm volatile("");
}

__attribute__((noinline)) void descend(Run& run, uint32_t depth, uint32_t round) noexcept {
  volatile char locals[48];
  locals[depth % sizeof locals] = static_cast<char>(round);
  if (depth > 0)
    descend(run, depth - 1, round);
  else if (round % 3 == 0)
    one(run);
  else if (round % 3 == 1)
    other(run);
  else
    third(run);
  asm volatile("" ::: "memory");
}

// Two calls whose frames lie at the same addresses: only the return address distinguishes them.
__attribute__((noinline)) void from_two_places(Run& run, bool first) noexcept {
  if (first) {
    one(run);
    asm volatile("nop");
  } else {
    one(run);
    asm volatile("nop\n nop");
  }
  asm volatile("" ::: "memory");
}

// Aligns its stack: only a word in its frame says where the frame ends.
__attribute__((noinline)) void aligned(Run& run, size_t bytes) noexcept {
  alignas(256) volatile char first[256];
  auto* more = static_cast<volatile char*>(__builtin_alloca(bytes));
  first[0] = more[0] = 0;
  one(run);
  asm volatile("" ::"r"(first), "r"(more) : "memory");
}

template <size_t kBytes>
__attribute__((noinline)) void before_aligned(Run& run) noexcept {
  volatile char locals[kBytes];
  locals[0] = 0;
  aligned(run, 64);
  asm volatile("" ::"r"(locals) : "memory");
}

// Captures that a handler of the program's leaves by a jump, after so many of their instructions.
struct Leaving {
  sigjmp_buf out;
  long instructions, last;
  uint32_t count;
  int turn;
  bool left;
};
Leaving leaving;

void leave_in_time(int) {
  if (++leaving.instructions != leaving.last) return;
  leaving.left = true;
  siglongjmp(leaving.out, 1);
}

// The processor traps after each instruction.
__attribute__((always_inline)) inline void step(bool on) noexcept {
  if (on)
    asm volatile("sub $128, %%rsp; pushf; orq $0x100, (%%rsp); popf; add $128, %%rsp" ::: "cc", "memory");
  else
    asm volatile("sub $128, %%rsp; pushf; andq $~0x100, (%%rsp); popf; add $128, %%rsp" ::: "cc", "memory");
}

__attribute__((noinline)) uint32_t captured(bool stepping) noexcept {
  Thread* thread = threads::self();
  Registers from = hooks::caller();
  if (stepping) step(true);
  uint32_t stack = capture(*thread, from);
  if (stepping) step(false);
  return stack;
}

__attribute__((noinline)) uint32_t inside(uint32_t depth, bool stepping) noexcept {
  uint32_t stack = depth ? inside(depth - 1, stepping) : captured(stepping);
  asm volatile("" ::: "memory");
  return stack;
}
__attribute__((noinline)) uint32_t from_here(bool stepping) noexcept {
  uint32_t stack = inside(8, stepping);
  asm volatile("nop" ::: "memory");
  return stack;
}
__attribute__((noinline)) uint32_t from_there(bool stepping) noexcept {
  uint32_t stack = inside(8, stepping);
  asm volatile("nop\n nop" ::: "memory");
  return stack;
}

// Two stacks that begin and end alike, captured at one place of the caller: which one does `way` say.
__attribute__((noinline)) uint32_t one_of(uint32_t (*way)(bool) noexcept, bool stepping) noexcept {
  uint32_t stack = way(stepping);
  asm volatile("" ::: "memory");
  return stack;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// Captures `room` launches below `depth` native frames; returns the number of frames of the last stack. `ns` gets the time of each.
EXPORT uint32_t launch_captures(uint32_t depth, uint32_t room, uint32_t* ns, char* memory, size_t bytes) {
  Run run{.ns = ns, .room = room, .memory = memory, .bytes = bytes};
  for (uint32_t round = 0; round < room; round++) descend(run, depth, round);
  return run.done == room ? run.frames : 0;
}

// A launch from one of two places of the same function.
EXPORT void launch_from(bool first) {
  uint32_t ns = 0;
  Run run{.ns = &ns, .room = 1};
  from_two_places(run, first);
  asm volatile("" ::: "memory");
}

// A launch inside of a function that aligns its stack, below one of four callers; its frame lies in the same place under all.
EXPORT void launch_aligned(uint32_t caller) {
  static void (*const callers[])(Run&) noexcept = {before_aligned<16>, before_aligned<32>, before_aligned<48>, before_aligned<64>};
  uint32_t ns = 0;
  Run run{.ns = &ns, .room = 1};
  callers[caller % 4](run);
  asm volatile("" ::: "memory");
}

// Leaves captures after each `every`th instruction. How many were left; `wrong`: how many of the next two of that stack were another's.
EXPORT uint32_t launch_left(uint32_t every, uint32_t* wrong) {
  signal(SIGTRAP, leave_in_time);
  uint32_t stacks[2] = {};
  leaving.count = 0;
  for (leaving.left = true; leaving.left;) {
    // All in one loop, so that the frames around keep their addresses. The first two turns give the right answers.
    for (leaving.turn = leaving.count ? 2 : 0; leaving.turn < 6; leaving.turn++) {
      if (leaving.turn == 2) generation::end();
      if (leaving.turn == 3) {
        leaving.instructions = 0;
        leaving.last = static_cast<long>(leaving.count + 1) * every;
        leaving.left = false;
      }
      if (sigsetjmp(leaving.out, 1)) continue;
      uint32_t stack = one_of(leaving.turn == 0 || leaving.turn == 2 ? from_here : from_there, leaving.turn == 3);
      if (leaving.turn < 2) stacks[leaving.turn] = stack;
      if (leaving.turn > 3 && stack != stacks[1]) ++*wrong;
    }
    leaving.count++;
  }
  signal(SIGTRAP, SIG_DFL);
  return leaving.count;
}

// Whether a stack was walked since this was last asked.
EXPORT bool launch_walked() {
  Thread* thread = threads::self();
  return thread && std::exchange(thread->last.count, 0);
}

// How often the last stack's proof was written; 0: it has none. A stack that is walked again gets a new proof.
EXPORT uint32_t launch_proofs() {
  Thread* thread = threads::self();
  if (!thread || !thread->known || !thread->known->last) return 0;
  return reinterpret_cast<const Proof*>(thread->known->kept + thread->known->last)->made;
}

// Each posix_memalign() from here on is a launch, until `room` of them; `ns` gets the time of each. Returns how many there were before.
EXPORT uint32_t launch_at_memory(uint32_t room, uint32_t* ns) {
  listening.ns = nullptr;
  uint32_t before = listening.done.exchange(0);
  listening.room = room;
  listening.ns = ns;
  return before;
}

EXPORT int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  uint32_t* ns = listening.ns.load(std::memory_order_relaxed);
  uint32_t number = ns ? listening.done.fetch_add(1, std::memory_order_relaxed) : 0;
  if (ns && number < listening.room.load(std::memory_order_relaxed)) ns[number] = timed_launch(number + 1).ns;
  *memory = aligned_alloc(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}

// The time of an empty measurement.
EXPORT uint32_t launch_clock_ns() {
  uint64_t least = ~0ull;
  for (int at = 0; at < 1000; at++) {
    uint64_t begin = now_ns(), took = now_ns() - begin;
    least = took < least ? took : least;
  }
  return static_cast<uint32_t>(least);
}
