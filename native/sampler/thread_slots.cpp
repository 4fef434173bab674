#include "sampler/thread_slots.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/sys.hpp"
#include "spool/spool.hpp"

#include <sys/mman.h>

namespace aiflame::thread_slots {

namespace {

// Most processes have one thread, the first. Its slot is separate, so that they do not touch the tables of all threads.
std::atomic<Thread*> first_slot{nullptr};
std::atomic<uint32_t> first_tid{0};
std::atomic<bool> any_by_tid{false};  // until then `by_tid` is not touched
AIFLAME_LARGE std::atomic<Thread*> other_slots[kSlots];
std::atomic<Thread*>& place_of(uint32_t slot) noexcept { return slot == 0 ? first_slot : other_slots[slot]; }
std::atomic<uint32_t> used_slots{0};  // slots below may have been used: a loop over all need not touch the others' memory
std::atomic<uint64_t> first_taken{0};
AIFLAME_LARGE std::atomic<uint64_t> others_taken[kSlots / 64];
std::atomic<uint64_t>& taken(uint32_t word) noexcept { return word == 0 ? first_taken : others_taken[word]; }
AIFLAME_LARGE std::atomic<uint32_t> met_in[kSlots];

// For each tid: slot + 1, or kEnded and the time. The kernel's tids are small numbers and near each other, so a process touches a few
// pages of this array, and the others take no memory.
constexpr uint32_t kTids = 1 << 22;  // PID_MAX_LIMIT; without the first slot's
constexpr uint32_t kEnded = 1u << 31;
constexpr int kTimeUnit = 26;  // 67 ms
constexpr uint32_t kLingers = 15;
AIFLAME_LARGE std::atomic<uint32_t> by_tid[kTids];

constexpr uint32_t kStripes = 256;
std::atomic<bool> stripes[kStripes];

// Memory mapped for a slot is kept for the next thread; it is only freed beyond this number of slots, for a process that once had very many
// threads.
constexpr uint32_t kWarmSlots = 256;
// A guard page takes a mapping of its own, of which a process may have 65,530: beyond these slots the program needs them for its threads.
constexpr uint32_t kGuardedSlots = 1024;

// The first thread's stack for ticks, and its Thread. A mapping of its own would cost a short process, and each fork, 10 µs. Instead of a guard
// page, unused memory lies below the stack.
AIFLAME_LARGE_FIRST struct {
  char nobodys[tick_stack::kBytes];
  char stack[tick_stack::kBytes];
  alignas(1024) char thread[sizeof(Thread)];
} of_first;
static_assert(alignof(Thread) <= 1024 && offsetof(Thread, last) < 1024, "what every process uses of it lies in one page");

uint32_t time_unit(uint64_t ns) noexcept { return static_cast<uint32_t>(ns >> kTimeUnit) & ~kEnded; }

Thread* thread_in(uint32_t slot) noexcept {
  Thread* thread = place_of(slot).load(std::memory_order_acquire);
  if (thread) return thread;
  auto* made = slot == 0 ? reinterpret_cast<Thread*>(of_first.thread)
                         : static_cast<Thread*>(tick_stack::map_with_thread(sizeof(Thread), slot < kGuardedSlots));
  if (!made) return nullptr;
  made->itself = made;
  made->cpu_timer = made->wall_timer = -1;
  made->slot = slot;
  place_of(slot).store(made, std::memory_order_release);  // the slot is ours alone
  for (uint32_t used = used_slots.load(); used <= slot && !used_slots.compare_exchange_weak(used, slot + 1);) {
  }
  return made;
}

bool take_lowest(uint32_t* slot) noexcept {
  for (uint32_t word = 0; word < kSlots / 64; word++) {
    uint64_t now = taken(word).load(std::memory_order_relaxed);
    while (~now) {
      auto bit = static_cast<uint32_t>(std::countr_one(now));
      if (!taken(word).compare_exchange_weak(now, now | uint64_t{1} << bit, std::memory_order_acq_rel)) continue;
      *slot = word * 64 + bit;
      return true;
    }
  }
  return false;
}

void write_by_tid(uint32_t tid, uint32_t entry) noexcept {
  any_by_tid.store(true, std::memory_order_relaxed);
  by_tid[tid].store(entry, std::memory_order_release);
}

void enter(uint32_t tid, uint32_t slot) noexcept { slot == 0 ? first_tid.store(tid, std::memory_order_release) : write_by_tid(tid, slot + 1); }

void free_slot(uint32_t slot) noexcept { taken(slot / 64).fetch_and(~(uint64_t{1} << slot % 64), std::memory_order_release); }

void unmap(Thread& thread) noexcept {
  NativeUnwinder::destroy(thread.unwinder);
  thread.unwinder = nullptr;
  capture_cache::unmap(thread);
}

void free_memory(Thread& thread) noexcept {
  if (thread.slot < kWarmSlots) return;
  unmap(thread);
  thread.last.count = 0;
  constexpr uint64_t kPage = 4096;
  auto drop = [](uint64_t low, uint64_t high) { sys::call(SYS_madvise, static_cast<long>(low), static_cast<long>(high - low), MADV_DONTNEED); };
  auto own = reinterpret_cast<uint64_t>(&thread);
  drop(own - tick_stack::kBytes, own);
  drop((reinterpret_cast<uint64_t>(thread.last.words) + kPage - 1) & ~(kPage - 1), reinterpret_cast<uint64_t>(&thread + 1) & ~(kPage - 1));
}

}  // namespace

Thread* find(uint32_t tid) noexcept {
  bool first = tid && first_tid.load(std::memory_order_acquire) == tid;
  uint32_t entry = first ? 1 : any_by_tid.load(std::memory_order_relaxed) && tid < kTids ? by_tid[tid].load(std::memory_order_acquire) : 0;
  if (!entry || entry & kEnded) return nullptr;
  Thread* thread = place_of(entry - 1).load(std::memory_order_acquire);
  return thread && thread->tid.load(std::memory_order_acquire) == tid ? thread : nullptr;
}

Thread* take(uint32_t tid) noexcept {
  uint32_t slot;
  if (tid >= kTids || !take_lowest(&slot)) {
    spool::note("more than 16384 threads at once: the others are not sampled");
    return nullptr;
  }
  Thread* thread = thread_in(slot);
  if (!thread) {
    free_slot(slot);
    return nullptr;
  }
  thread->row = thread->launched_by = thread->last.count = thread->nodes_made.layer = 0;
  thread->omp_worker = thread->omp_waiting = thread->adopted = thread->settled = thread->ticks_apart = thread->foreign = false;
  thread->theirs = {};
  thread->slow = {};
  thread->long_wait = {};
  thread->block = 0;
  thread->off_stack = 0;
  thread->busy = false;
  thread->uses.store(0, std::memory_order_relaxed);
  thread->launching.store(0, std::memory_order_relaxed);
  thread->launches.settle();
  thread->pool_blocks.settle();
  thread->stack_low = thread->stack_high = 0;
  thread->cpu_alive_ns = thread->cpu_due_ns = thread->routine = 0;
  thread->tid.store(tid, std::memory_order_release);
  enter(tid, slot);
  return thread;
}

void give_back(Thread& thread, bool reported) noexcept {
  uint32_t tid = thread.tid.load(std::memory_order_relaxed);
  if (thread.slot == 0) first_tid.store(0, std::memory_order_release);
  write_by_tid(tid, reported ? kEnded | time_unit(now_ns()) : 0);
  thread.tid.store(0, std::memory_order_release);
  free_memory(thread);
  free_slot(thread.slot);
}

bool just_ended(uint32_t tid, uint64_t now) noexcept {
  uint32_t entry = tid < kTids ? by_tid[tid].load(std::memory_order_acquire) : 0;
  return entry & kEnded && ((time_unit(now) - entry) & ~kEnded) < kLingers;
}

void keep_only(Thread* survivor) noexcept {
  first_tid.store(0, std::memory_order_relaxed);
  for (auto& stripe : stripes)
    if (stripe.load(std::memory_order_relaxed)) stripe.store(false, std::memory_order_relaxed);
  uint32_t used = used_slots.load(std::memory_order_relaxed);
  for (uint32_t slot = 0; slot < used; slot++) {
    Thread* thread = place_of(slot).load(std::memory_order_relaxed);
    if (!thread) continue;
    uint32_t tid = thread->tid.exchange(0);
    if (tid && slot) by_tid[tid].store(0, std::memory_order_relaxed);
    if (thread == survivor) continue;
    if (slot < kWarmSlots) {
      // Pages that the child would copy at its first write to them, for threads that it may never have.
      unmap(*thread);
    } else if (tid) {
      free_memory(*thread);
    }
  }
  for (uint32_t word = 0; word * 64 < used; word++) taken(word).store(0, std::memory_order_relaxed);
  if (!survivor) return;
  uint32_t tid = sys::thread_id();
  taken(survivor->slot / 64).store(uint64_t{1} << survivor->slot % 64, std::memory_order_relaxed);
  survivor->tid.store(tid, std::memory_order_relaxed);
  if (tid < kTids) enter(tid, survivor->slot);
}

void meet(const Thread& thread, uint32_t pass) noexcept { met_in[thread.slot].store(pass, std::memory_order_relaxed); }
bool met(const Thread& thread, uint32_t pass) noexcept { return met_in[thread.slot].load(std::memory_order_relaxed) == pass; }

uint32_t words_in_use() noexcept { return (used_slots.load(std::memory_order_acquire) + 63) / 64; }
uint64_t taken_word(uint32_t word) noexcept { return taken(word).load(std::memory_order_acquire); }
Thread* in_slot(uint32_t slot) noexcept { return place_of(slot).load(std::memory_order_acquire); }

Claim::Claim(uint32_t tid, Patience patience) noexcept : stripe_(stripes[tid % kStripes]), held_(false) {
  // The holder may be the very code that this thread's handler interrupted, or a thread that no longer exists: so the wait is limited.
  int tries = patience == Patience::WAIT ? 1000 : 1;
  for (int turn = 1; turn <= tries; turn++) {
    if (!stripe_.load(std::memory_order_relaxed) && !stripe_.exchange(true, std::memory_order_acq_rel)) {
      held_ = true;
      return;
    }
    if (turn % 16 == 0) sys::call(SYS_sched_yield);
  }
}

Claim::~Claim() {
  if (held_) stripe_.store(false, std::memory_order_release);
}

}  // namespace aiflame::thread_slots
