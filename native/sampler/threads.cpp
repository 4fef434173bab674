#include "sampler/threads.hpp"

#include "base/clock.hpp"
#include "base/own_process.hpp"
#include "base/sys.hpp"
#include "base/thread_block.hpp"
#include "sampler/signals.hpp"
#include "sampler/stack_bounds.hpp"
#include "sampler/task_list.hpp"
#include "sampler/thread_slots.hpp"
#include "sampler/timers.hpp"
#include "sampler/torch_autograd.hpp"
#include "sampler/waiting.hpp"
#include "spool/control.hpp"
#include "spool/life.hpp"
#include "spool/spool.hpp"

#include <algorithm>
#include <csignal>

namespace aiflame::threads {

namespace {

using thread_slots::Claim;
constexpr auto kWait = Claim::Patience::WAIT;

// Number of threads that have not reached begin() yet: until it is 0, an unknown thread may be one of them, and is left alone.
std::atomic<uint32_t> awaited{0};
// True between adopt_all() and retire_all(). Read under a Claim, so that the thread that retires others sees all that got a row before.
std::atomic<bool> enrolling{false};
std::atomic<bool> paused{false};
std::atomic<uint32_t> passes{0};

thread_local Thread* current;
thread_local bool ended;

bool alive(uint32_t tid) noexcept {
  constexpr long kNoSuchThread = -3;  // ESRCH
  return sys::call(SYS_tgkill, sys::process_id(), tid, 0) != kNoSuchThread;
}

uint32_t name_of(uint32_t tid) noexcept {
  char name[32];
  return spool::text({name, task_name(tid, name, sizeof name)});
}

// A tick needs a stack to run on.
void arm(Thread& thread, uint64_t cpu_ns = 0) noexcept {
  if (thread.settled && !paused.load(std::memory_order_acquire)) timers::arm(thread, cpu_ns);
}

// A row and timers, once per recording. Under a Claim.
void enrol(Thread& thread, uint32_t creator_stack) noexcept {
  if (thread.row || !enrolling.load(std::memory_order_acquire) || !control::recording()) return;
  uint32_t tid = thread.tid.load(std::memory_order_relaxed);
  thread.cpu_start_ns = thread.cpu_alive_ns = sys::thread_cpu_ns(tid);  // a forked child's clock began anew
  thread.row = spool::life::take_thread(tid)
                   ? spool::life::kMainThread
                   : spool::append(schema::ThreadRecord{.tid = tid, .creator = creator_stack, .start_ns = now_ns(), .name = name_of(tid)});
  thread.turn_ns.store(0, std::memory_order_relaxed);
  thread.ticked = false;
  if (thread.row) arm(thread, thread.cpu_start_ns);
}

// LIVES: its recording ends. ENDS: itself, now. GONE: it has ended.
enum class Fate : uint8_t { LIVES, ENDS, GONE };

// Without an alternate stack, its ticks would run on its own stack.
void tell_unsettled(const Thread& thread, uint32_t tid) noexcept {
  constexpr uint64_t kWorthTelling = 100'000'000;
  uint64_t used = std::max(thread.cpu_alive_ns, sys::thread_cpu_ns(tid)) - thread.cpu_start_ns;
  if (used > kWorthTelling)
    spool::note("some threads were not sampled: they were not made by pthread_create, and never waited, so that there was no safe moment to begin");
}

void retire(Thread& thread, Fate fate) noexcept {
  timers::disarm(thread);
  uint32_t row = std::atomic_ref(thread.row).exchange(0);
  thread.last.count = 0;
  if (!row) return;
  uint32_t tid = thread.tid.load(std::memory_order_relaxed);
  torch_autograd::finish_nodes(thread, row);
  if (!thread.settled) tell_unsettled(thread, tid);
  bool gone = fate == Fate::GONE;  // its tid may be another's by now
  uint64_t end = now_by_system_call_ns(), cpu = gone ? thread.cpu_alive_ns : sys::thread_cpu_ns(tid);
  uint64_t used = cpu > thread.cpu_start_ns ? cpu - thread.cpu_start_ns : 0;
  if (row == spool::life::kMainThread && spool::life::is_all()) {
    char name[32];
    spool::life::end_thread({name, gone ? 0 : task_name(tid, name, sizeof name)}, end, used);
  } else {
    if (!gone) timers::make_up(thread, row, cpu, end, fate == Fate::LIVES);
    spool::append(schema::ThreadEnd{.thread = row, .name = gone ? 0 : name_of(tid), .end_ns = end, .cpu_ns = used});
  }
}

// Ends the rows of a thread that ended without reporting it.
void bury(Thread& thread) noexcept {
  retire(thread, Fate::GONE);
  thread_slots::give_back(thread, false);
}

// Finds out facts that only the thread itself can; safe in a handler that runs on the thread's own stack.
void look_at_self(Thread& thread, uint32_t tid) noexcept {
  uint64_t block = thread_block::address();
  thread.block = thread_block::belongs_to(block, tid) ? block : 0;
  if (!thread.stack_high) {
    auto sp = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
    StackBounds bounds = stack_bounds_around(sp, thread.block, tid == own_process_id());
    thread.stack_low = bounds.low;
    thread.stack_high = bounds.high;
  }
}

// Not in a handler.
void settle(Thread& thread, uint32_t tid) noexcept {
  thread_block::learn(tid);
  look_at_self(thread, tid);
  thread.settled = tick_stack::install(thread);
}

Thread* adopt(uint32_t tid) noexcept {
  Thread* thread = thread_slots::take(tid);
  if (thread) thread->adopted = true;
  return thread;
}

Thread* make_self() noexcept {
  if (ended) return nullptr;
  uint32_t tid = sys::thread_id();
  Claim claimed(tid);
  if (!claimed) return nullptr;
  Thread* thread = thread_slots::find(tid);
  if (thread && thread->stack_high) {  // another thread settled in it, which had this tid before
    bury(*thread);
    thread = nullptr;
  }
  if (!thread) thread = adopt(tid);
  if (!thread) return nullptr;
  settle(*thread, tid);
  current = thread;
  enrol(*thread, 0);
  return thread;
}

// An adopted thread has ended although another thread now has its tid: that one has used less CPU time, or a timer of ours has lost its thread.
bool is_another(Thread& thread, uint32_t tid) noexcept {
  if (!thread.adopted) return false;
  uint64_t cpu = sys::thread_cpu_ns(tid);
  if (cpu < thread.cpu_alive_ns || timers::orphaned(thread)) return true;
  thread.cpu_alive_ns = cpu;
  return false;
}

// Asks a waiting thread to install a stack for its ticks.
void greet(uint32_t tid) noexcept {
  int call = waiting::call_of(tid);
  if (call < 0) return;
  siginfo_t greeting{};
  greeting.si_code = SI_TIMER;
  greeting.si_value.sival_int = signals::kTickCookie;
  greeting.si_timerid = signals::kGreeting;
  greeting.si_overrun = call;
  sys::call(SYS_rt_tgsigqueueinfo, sys::process_id(), tid, SIGPROF, reinterpret_cast<long>(&greeting));
}

void visit(uint32_t tid, uint64_t now, uint32_t pass) noexcept {
  bool unsettled = false;
  if (Claim claimed(tid); claimed) {
    Thread* thread = thread_slots::find(tid);
    if (thread && is_another(*thread, tid)) {
      bury(*thread);
      thread = nullptr;
    }
    if (!thread && awaited.load(std::memory_order_acquire) == 0 && !thread_slots::just_ended(tid, now) && alive(tid)) thread = adopt(tid);
    if (!thread) return;
    thread_slots::meet(*thread, pass);
    thread->row ? arm(*thread) : enrol(*thread, 0);
    unsettled = thread->row && !thread->settled;
  }
  // Not under the claim, which the greeted thread needs: it may run before this one goes on.
  if (unsettled) greet(tid);
}

// Adopted threads do not report their end.
void bury_the_gone(uint32_t pass) noexcept {
  thread_slots::each([pass](Thread& thread) {
    if (thread_slots::met(thread, pass)) return;
    uint32_t tid = thread.tid.load(std::memory_order_relaxed);
    Claim claimed(tid);
    if (claimed && thread.tid.load(std::memory_order_acquire) == tid && !alive(tid)) bury(thread);
  });
}

// Whether the process has only the calling thread, and no known thread has ended. Asked when a program starts: most have one thread.
bool alone() noexcept {
  uint32_t count = 0;
  thread_slots::each([&count](const Thread&) { count++; });
  return count == 1 && current && is_single_threaded();
}

// Runs `act` for every known thread, while no other thread enrols or retires it.
template <class Act>
void each_claimed(Act act) noexcept {
  thread_slots::each([act](Thread& thread) {
    uint32_t tid = thread.tid.load(std::memory_order_relaxed);
    Claim claimed(tid, kWait);
    if (tid && thread.tid.load(std::memory_order_acquire) == tid) act(thread);
  });
}

}  // namespace

Thread* self() noexcept {
  Thread* thread = current;
  if (!thread) return make_self();
  if (thread->row || !enrolling.load(std::memory_order_relaxed)) [[likely]]
    return thread;
  // Recording has restarted since this thread last called us.
  if (Claim claimed(thread->tid.load(std::memory_order_relaxed)); claimed) enrol(*thread, 0);
  return thread;
}

Thread* self_if_known() noexcept { return current; }

Thread* interrupted(ucontext_t* context) noexcept {
  Thread* thread = tick_stack::owner(context);
  if (!thread) {
    thread = thread_slots::find(sys::thread_id());
    if (!thread || !thread->settled) return nullptr;
    // The program has removed our stack without libc, and now has none.
    if (thread->ticks_apart && context->uc_stack.ss_flags & SS_DISABLE) tick_stack::install_on_return(*thread, context);
  }
  thread->foreign = !thread->block || thread->block != thread_block::address();
  return thread;
}

bool may_use_locals(const ucontext_t* context) noexcept {
  const Thread* thread = tick_stack::owner(context);
  return thread ? thread->block && thread->block == thread_block::address() : thread_block::usable();
}

void greeted(ucontext_t* context, const siginfo_t* greeting) noexcept {
  control::Use use;
  if (greeting->si_overrun == signals::kLentStack) context->uc_stack = stack_t{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  waiting::resume(context, greeting->si_overrun);
  uint32_t tid = sys::thread_id();
  Claim claimed(tid);
  Thread* thread = claimed ? thread_slots::find(tid) : nullptr;
  if (!thread || thread->settled) return;
  // The kernel does not change the alternate stack of a thread that is running on it: we try again later.
  if (tick_stack::runs_on_alternate(context)) return;
  look_at_self(*thread, tid);
  tick_stack::install_on_return(*thread, context);
  thread->settled = true;
  if (thread->block) current = thread;
  if (thread->row) arm(*thread);
}

void expect() noexcept { awaited.fetch_add(1, std::memory_order_acq_rel); }
void expected() noexcept { awaited.fetch_sub(1, std::memory_order_acq_rel); }

void begin(const Beginning& beginning) noexcept {
  if (!control::recording()) return;
  uint32_t tid = sys::thread_id();
  Claim claimed(tid, kWait);
  if (!claimed) return;
  // Expected threads are not adopted: a known thread with this tid is an earlier one.
  Thread* thread = thread_slots::find(tid);
  if (thread && thread != current) {
    bury(*thread);
    thread = nullptr;
  }
  if (!thread) thread = thread_slots::take(tid);
  if (!thread) return;
  StackBounds bounds = stack_bounds_of_new_thread(beginning.stack_bytes);
  thread->stack_low = bounds.low;
  thread->stack_high = bounds.high;
  thread->routine = reinterpret_cast<uint64_t>(beginning.routine);
  settle(*thread, tid);
  current = thread;
  enrol(*thread, beginning.creator_stack);
}

void end() noexcept {
  Thread* thread = current;
  ended = true;
  current = nullptr;
  uint32_t tid = thread ? thread->tid.load(std::memory_order_relaxed) : sys::thread_id();
  Claim claimed(tid, kWait);
  if (!thread) thread = thread_slots::find(tid);
  if (!thread) return;
  retire(*thread, Fate::ENDS);
  tick_stack::remove(*thread);
  thread_slots::give_back(*thread, true);
}

void adopt_all() noexcept {
  each_claimed([](Thread& thread) {
    timers::disarm(thread);
    thread.row = thread.launched_by = thread.last.count = 0;
    thread.cpu_due_ns = 0;
    thread.slow = {};
    thread.long_wait = {};
  });
  enrolling.store(true);
  self();
  if (!alone()) tend();
}

void tend() noexcept {
  uint32_t pass = passes.fetch_add(1, std::memory_order_relaxed) + 1;
  uint64_t now = now_ns();
  TaskList tasks;
  for (uint32_t tid : tasks.tids()) visit(tid, now, pass);
  if (tasks.complete()) bury_the_gone(pass);
}

void retire_all() noexcept {
  enrolling.store(false);
  each_claimed([](Thread& thread) { retire(thread, Fate::LIVES); });
}

void pause_all() noexcept {
  paused.store(true);
  each_claimed([](Thread& thread) {
    timers::disarm(thread);
    thread.cpu_due_ns = 0;
  });
}

void resume_all() noexcept {
  paused.store(false);
  each_claimed([](Thread& thread) {
    if (thread.row) arm(thread);
  });
  if (enrolling.load() && control::recording()) tend();
}

bool any_uses() noexcept {
  bool any = false;
  thread_slots::each([&any](const Thread& thread) { any |= thread.uses.load(std::memory_order_acquire) > 0; });
  return any;
}

bool any_launching() noexcept {
  bool any = false;
  uint32_t self = sys::thread_id();
  thread_slots::each(
      [&](const Thread& thread) { any |= thread.launching.load(std::memory_order_acquire) && thread.tid.load(std::memory_order_relaxed) != self; });
  return any;
}

void after_fork() noexcept {
  awaited.store(0, std::memory_order_relaxed);
  thread_slots::each([](Thread& thread) {
    thread.cpu_timer = thread.wall_timer = -1;
    thread.row = thread.last.count = thread.launched_by = thread.nodes_made.layer = 0;
    thread.cpu_due_ns = 0;
    thread.slow = {};
    thread.long_wait = {};
    thread.busy = false;
  });
  thread_slots::keep_only(current);
  enrolling.store(true);
}

}  // namespace aiflame::threads
