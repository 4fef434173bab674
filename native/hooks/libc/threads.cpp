// Adds a new thread to the sampler before its first instruction, with the stack that created it.
#include "sampler/threads.hpp"

#include "base/large.hpp"
#include "base/sys.hpp"
#include "collector.hpp"
#include "hooks/libc/resolve.hpp"
#include "hooks/shared/caller.hpp"
#include "hooks/shared/exported.hpp"
#include "sampler/capture.hpp"
#include "sampler/signals.hpp"

#include <pthread.h>
#include <threads.h>

namespace aiflame::hooks {

namespace {

Real<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*), "pthread_create"> real_pthread_create;
Real<decltype(::thrd_create), "thrd_create"> real_thrd_create;

pthread_key_t ending_key;
enum class Key : uint8_t { NONE, MAKING, THERE, REFUSED };
std::atomic<Key> key{Key::NONE};
void on_thread_end(void* value) noexcept;

// The creator's message to the new thread. Not from malloc: allocators create threads too, with their locks held.
struct Start {
  void* routine = nullptr;
  void* argument = nullptr;
  uint32_t creator_stack = 0;
  uint64_t stack_bytes = 0;
  signals::Inherited mask{};
  std::atomic<bool> used{false};
};

constexpr uint32_t kStarts = 256;
AIFLAME_LARGE constinit Start starts[kStarts];
std::atomic<uint32_t> next_start{0};

Start* take_start() noexcept {
  uint32_t first = next_start.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t at = 0; at < kStarts; at++) {
    Start& start = starts[(first + at) % kStarts];
    bool free = false;
    if (!start.used.load(std::memory_order_relaxed) && start.used.compare_exchange_strong(free, true, std::memory_order_acquire)) return &start;
  }
  return static_cast<Start*>(sys::map_memory(sizeof(Start)));
}

void give_start(Start* start) noexcept {
  if (start >= starts && start < starts + kStarts)
    start->used.store(false, std::memory_order_release);
  else
    sys::unmap_memory(start, sizeof(Start));
}

uint64_t stack_bytes(const pthread_attr_t* attributes) noexcept {
  pthread_attr_t ordinary;
  if (!attributes && pthread_attr_init(&ordinary) == 0) attributes = &ordinary;
  size_t bytes = 0;
  if (!attributes || pthread_attr_getstacksize(attributes, &bytes) != 0) bytes = 0;
  if (attributes == &ordinary) pthread_attr_destroy(&ordinary);
  return bytes;
}

// The key is made with the first thread that the program starts: most programs start none.
void make_key() noexcept {
  if (key.load(std::memory_order_acquire) >= Key::THERE) [[likely]]
    return;
  Key none = Key::NONE;
  if (key.compare_exchange_strong(none, Key::MAKING))
    key.store(pthread_key_create(&ending_key, on_thread_end) == 0 ? Key::THERE : Key::REFUSED, std::memory_order_release);
  // Not for ever: in the child of a fork, the thread that was making it may be gone. A thread without it is found by its absence.
  for (int turn = 0; turn < 1000 && key.load(std::memory_order_acquire) == Key::MAKING; turn++) sched_yield();
}

Start* prepare(void* routine, void* argument, uint32_t creator_stack, const pthread_attr_t* attributes) noexcept {
  Start* start = take_start();
  if (!start) return nullptr;
  make_key();
  start->routine = routine;
  start->argument = argument;
  start->creator_stack = creator_stack;
  start->stack_bytes = stack_bytes(attributes);
  start->mask = signals::inherited();
  threads::expect();
  return start;
}

void forget(Start* start) noexcept {
  give_start(start);
  threads::expected();
}

uint32_t creator_stack(const Registers& caller) noexcept {
  if (!collector::active() || !own_process()) return 0;
  Thread* thread = threads::self();
  if (!thread) return 0;
  return capture(*thread, caller);
}

struct Routine {
  void* routine;
  void* argument;
};

Routine enter(void* argument) noexcept {
  auto* start = static_cast<Start*>(argument);
  Routine routine{start->routine, start->argument};
  threads::Beginning beginning{start->creator_stack, routine.routine, start->stack_bytes};
  signals::inherit(start->mask);
  give_start(start);
  if (key.load(std::memory_order_acquire) == Key::THERE) pthread_setspecific(ending_key, reinterpret_cast<void*>(1));
  threads::begin(beginning);
  threads::expected();
  return routine;
}

// The last instruction is a jump: the thread's stack looks as it would without us, and pthread_exit() unwinds nothing of ours.
void* run_thread(void* argument) {
  Routine routine = enter(argument);
  return reinterpret_cast<void* (*)(void*)>(routine.routine)(routine.argument);
}
int run_c11_thread(void* argument) {
  Routine routine = enter(argument);
  return reinterpret_cast<int (*)(void*)>(routine.routine)(routine.argument);
}

// A key's destructor runs however a thread ends: return, pthread_exit, cancellation. Waiting for the last round leaves the other
// destructors' work in the profile.
void on_thread_end(void* value) noexcept {
  auto round = reinterpret_cast<uintptr_t>(value);
  if (round < PTHREAD_DESTRUCTOR_ITERATIONS - 1 && pthread_setspecific(ending_key, reinterpret_cast<void*>(round + 1)) == 0) return;
  threads::end();
}

}  // namespace

void resolve_threads() noexcept { find_all(real_pthread_create, real_thrd_create); }

}  // namespace aiflame::hooks

using namespace aiflame;
using namespace aiflame::hooks;

AIFLAME_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*routine)(void*), void* argument) noexcept {
  uint32_t creator = creator_stack(caller());
  Start* start = own_process() ? prepare(reinterpret_cast<void*>(routine), argument, creator, attributes) : nullptr;
  if (!start) return real_pthread_create(thread, attributes, routine, argument);
  int error = real_pthread_create(thread, attributes, run_thread, start);
  if (error) forget(start);
  return error;
}

AIFLAME_EXPORT int thrd_create(thrd_t* thread, thrd_start_t routine, void* argument) noexcept {
  uint32_t creator = creator_stack(caller());
  Start* start = own_process() ? prepare(reinterpret_cast<void*>(routine), argument, creator, nullptr) : nullptr;
  if (!start) return real_thrd_create(thread, routine, argument);
  int error = real_thrd_create(thread, run_c11_thread, start);
  if (error != thrd_success) forget(start);
  return error;
}
