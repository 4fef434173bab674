#include "sampler/timers.hpp"

#include "base/clock.hpp"
#include "base/processor.hpp"
#include "base/safe_load.hpp"
#include "base/sys.hpp"
#include "sampler/capture.hpp"
#include "sampler/housekeeping.hpp"
#include "sampler/loop_turns.hpp"
#include "sampler/signals.hpp"
#include "sampler/torch_autograd.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <sched.h>
#include <algorithm>
#include <utility>

namespace aiflame::timers {

namespace {

uint32_t period_of(uint32_t rate) noexcept { return 1'000'000'000u / rate; }

// A first tick after a random part of a period: a thread that lives for less than one is sampled with the right probability,
// and threads started together do not tick together.
uint64_t first_tick(uint64_t period, uint32_t tid) noexcept {
  uint64_t hash = (now_by_system_call_ns() ^ static_cast<uint64_t>(tid) << 32) * 0x9E3779B97F4A7C15u;
  return 1 + (hash >> 32) * period / 0xFFFFFFFFu;
}

itimerspec ticks(uint64_t first, uint64_t period) noexcept {
  auto spec = [](uint64_t ns) noexcept { return timespec{static_cast<time_t>(ns / 1'000'000'000u), static_cast<long>(ns % 1'000'000'000u)}; };
  return {.it_interval = spec(period), .it_value = spec(first)};
}

// `id` is known before the first tick comes.
void start_timer(std::atomic<int32_t>& id, long clock, uint32_t tid, uint32_t rate, uint64_t first) noexcept {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event.sigev_value.sival_int = signals::kTickCookie;
  event._sigev_un._tid = static_cast<int>(tid);
  int32_t timer = -1;
  long made = sys::call(SYS_timer_create, clock, reinterpret_cast<long>(&event), reinterpret_cast<long>(&timer));
  constexpr long kLimitReached = -11;  // EAGAIN
  if (made == kLimitReached) spool::note("some threads are not sampled: the limit of pending signals is reached: raise it with ulimit -i");
  if (sys::failed(made)) return;
  id.store(timer);
  itimerspec spec = ticks(first, period_of(rate));
  sys::call(SYS_timer_settime, timer, 0, reinterpret_cast<long>(&spec));
}

void stop_timer(std::atomic<int32_t>& timer) noexcept {
  int32_t id = timer.exchange(-1);
  if (id >= 0) sys::call(SYS_timer_delete, id);
}

// CPU time of the thread since its last wall-clock tick.
uint64_t take_cpu_used(Thread& thread) noexcept {
  uint64_t cpu = sys::thread_cpu_ns(thread.tid.load(std::memory_order_relaxed));
  return cpu - std::exchange(thread.cpu_seen_ns, cpu);
}

// A thread that blocks stands on its `syscall` instruction (the kernel backs up to it to restart the call) or just behind it. So does
// one that works inside the kernel: its CPU clock has gone on all the time.
bool waiting(const ucontext_t* context, uint64_t elapsed_ns, uint64_t used_ns) noexcept {
  if (used_ns > elapsed_ns - elapsed_ns / 16) return false;
  auto pc = static_cast<uint64_t>(context->uc_mcontext.gregs[REG_RIP]);
  constexpr uint64_t kSyscall = 0x050f, kTwoBytes = 0xffff;
  return (safe_load(pc) & kTwoBytes) == kSyscall || (safe_load(pc - 2) & kTwoBytes) == kSyscall;
}

// A wall-clock tick interrupts a thread's wait, and costs five times as much as a tick of a working thread: 200 threads that only waited used two
// and a half processors at 999 Hz. So a thread that has waited in one place for some ticks, and hardly used its CPU clock, gets half as many, then
// a quarter, until two ticks are a tenth of a second apart. The first tick elsewhere restores the full rate.
void follow_wait(Thread& thread, const schema::CpuSample& sample, uint64_t used_ns) noexcept {
  constexpr uint32_t kPatience = 8, kMost = 32;
  constexpr uint64_t kLongestNs = 100'000'000;
  LongWait& wait = thread.long_wait;
  uint64_t elapsed_ns = sample.time_ns - wait.sample.time_ns;
  bool same = sample.state && sample.stack && sample.stack == wait.sample.stack && used_ns <= elapsed_ns / 16;
  wait.ticks = same ? wait.ticks + 1 : 0;
  wait.sample = sample;
  uint32_t wanted = !same ? 1 : wait.ticks % kPatience ? wait.factor : std::min(2 * wait.factor, kMost);
  if (wanted == wait.factor || uint64_t{wanted} * sample.period_ns > kLongestNs) return;
  int32_t timer = thread.wall_timer.load(std::memory_order_relaxed);
  // Fewer from a random moment on: the ends of waits that take equally long each time must not meet the same part of a period.
  uint64_t period = uint64_t{wanted} * sample.period_ns;
  itimerspec spec = ticks(wanted == 1 ? period : first_tick(period, thread.tid.load(std::memory_order_relaxed)), period);
  if (timer >= 0 && !sys::failed(sys::call(SYS_timer_settime, timer, 0, reinterpret_cast<long>(&spec)))) wait.factor = wanted;
}

// Periods since the last wall-clock tick.
uint32_t wall_ticks(const Thread& thread, const siginfo_t* info, uint64_t now) noexcept {
  const LongWait& wait = thread.long_wait;
  if (wait.factor == 1) return 1 + static_cast<uint32_t>(std::clamp(info->si_overrun, 0, 0xFFFE));
  uint64_t period = period_of(control::page().wall_rate);
  return static_cast<uint32_t>(std::clamp<uint64_t>((now - wait.sample.time_ns + period / 2) / period, 1, 0xFFFF));
}

// The first tick after a long wait stands for many periods, during a part of which the thread still waited. The periods that match the CPU time
// used since are counted for the wait, and the remainder for the present place. That is right on average, though it looks reversed: most work
// shorter than the distance between two ticks falls between them, and the ticks that do hit such work must stand for all of it.
void share_with_wait(const LongWait& wait, schema::CpuSample& sample, uint64_t used_ns) noexcept {
  if (wait.factor == 1 || (sample.state && sample.stack == wait.sample.stack)) return;
  uint64_t before = std::min<uint64_t>((used_ns + sample.period_ns / 2) / sample.period_ns, sample.weight - 1u);
  if (!before) return;
  schema::CpuSample waited = wait.sample;
  sample.weight = static_cast<uint16_t>(sample.weight - before);
  waited.weight = static_cast<uint16_t>(before);
  waited.time_ns = sample.time_ns - uint64_t{sample.weight} * sample.period_ns;
  spool::append(waited);
}

void take_sample(Thread& thread, const ucontext_t* context, uint64_t now, bool wall, uint32_t ticks) noexcept {
  const greg_t* registers = context->uc_mcontext.gregs;
  schema::CpuSample sample{
      .thread = thread.row,
      .weight = static_cast<uint16_t>(std::min(ticks, 0xFFFFu)),
      .time_ns = now,
      .period_ns = period_of(wall ? control::page().wall_rate : control::page().cpu_rate),
      .clock = wall,
      .cpu = static_cast<uint16_t>(processor()),
  };
  uint64_t used_ns = wall ? take_cpu_used(thread) : 0;
  if (wall && waiting(context, uint64_t{sample.weight} * sample.period_ns, used_ns))
    sample.state = static_cast<uint8_t>(schema::SampleState::WAITING);
  sample.stack = capture(thread, Registers{
                                     .pc = static_cast<uint64_t>(registers[REG_RIP]),
                                     .sp = static_cast<uint64_t>(registers[REG_RSP]),
                                     .bp = static_cast<uint64_t>(registers[REG_RBP]),
                                     .all = registers,
                                     .exact = true,
                                 });
  torch_autograd::Point point = thread.foreign ? torch_autograd::Point{} : torch_autograd::in_tick(thread);
  sample.autograd = point.autograd;
  sample.sequence = point.sequence;
  if (wall) share_with_wait(thread.long_wait, sample, used_ns);
  spool::append(sample);
  if (wall) follow_wait(thread, sample, used_ns);
}

// The stack of a JVM's thread, say, that is about to overflow takes longer to search than a period lasts: with every tick taken, the program
// would stand still. (One slow tick is nothing: it was the first, or another thread had the processor.)
void slow_down(Thread& thread, uint64_t began_ns) noexcept {
  constexpr uint64_t kShare = 4, kLongest = 100'000'000;
  uint64_t now = now_ns(), cost = now - began_ns;
  const schema::Control& page = control::page();
  bool slow = cost * kShare > period_of(std::max(page.cpu_rate, page.wall_rate));
  if (slow && thread.slow.last) [[unlikely]]
    thread.slow.quiet_until_ns = now + std::min((kShare - 1) * cost, kLongest);
  thread.slow.last = slow;
}

}  // namespace

void arm(Thread& thread, uint64_t cpu_ns) noexcept {
  const schema::Control& page = control::page();
  uint32_t tid = thread.tid.load(std::memory_order_relaxed);
  // The kernel's encoding of "CPU clock of thread tid": ~tid << 3 | CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED.
  bool cpu = page.cpu_rate && thread.cpu_timer < 0, wall = page.wall_rate && thread.wall_timer < 0;
  if (!cpu && !wall) return;
  uint64_t now = cpu_ns ? cpu_ns : sys::thread_cpu_ns(tid);
  if (cpu) {
    uint64_t first = first_tick(period_of(page.cpu_rate), tid);
    thread.cpu_due_ns = now + first;
    start_timer(thread.cpu_timer, static_cast<int>(~tid << 3 | 6u), tid, page.cpu_rate, first);
    if (thread.cpu_timer < 0) thread.cpu_due_ns = 0;
  }
  if (wall) {
    thread.long_wait = {};
    thread.cpu_seen_ns = now;
    start_timer(thread.wall_timer, CLOCK_MONOTONIC, tid, page.wall_rate, first_tick(period_of(page.wall_rate), tid));
  }
}

void disarm(Thread& thread) noexcept {
  stop_timer(thread.cpu_timer);
  stop_timer(thread.wall_timer);
}

void make_up(Thread& thread, uint32_t row, uint64_t cpu_ns, uint64_t end_ns, bool lives) noexcept {
  uint64_t due = std::exchange(thread.cpu_due_ns, 0);
  if (!due || cpu_ns < due) return;
  control::Use use;
  if (!control::recording()) return;
  uint32_t period = period_of(control::page().cpu_rate);
  // A thread that goes on had its ticks, but for the one that is just due; unless its recording is shorter than a tick.
  if (lives && thread.ticked && cpu_ns - due < period) return;
  constexpr uint64_t kLatest = 400'000'000;  // a busy kernel's ticks are up to 0.2 s late
  if (cpu_ns - due > kLatest) return;        // the program keeps ticks away
  spool::append(
      schema::CpuSample{
          .thread = row,
          .stack = unseen_stack(thread.routine),
          .weight = static_cast<uint16_t>(std::min<uint64_t>(1 + (cpu_ns - due) / period, 0xFFFF)),
          .time_ns = end_ns,
          .period_ns = period,
          .cpu = static_cast<uint16_t>(processor()),
      },
      use);
}

bool orphaned(const Thread& thread) noexcept {
  int32_t timer = thread.cpu_timer.load(std::memory_order_relaxed);
  itimerspec left{};
  if (timer < 0 || sys::failed(sys::call(SYS_timer_gettime, timer, reinterpret_cast<long>(&left)))) return false;
  // The kernel finds no thread for this clock, and reports no remaining time. A running periodic timer always has some.
  return left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0;
}

void tick(Thread& thread, siginfo_t* info, ucontext_t* context) noexcept {
  control::Use use;
  if (!control::recording()) return;
  if (!thread.row) return;
  uint64_t now = now_ns();
  bool wall = thread.wall_timer.load(std::memory_order_relaxed) == info->si_timerid;
  if (!wall && thread.cpu_timer.load(std::memory_order_relaxed) != info->si_timerid) return;  // the last of a timer that was stopped
  uint32_t ticks = wall ? wall_ticks(thread, info, now) : 1 + static_cast<uint32_t>(std::clamp(info->si_overrun, 0, 0xFFFE));
  if (!wall) {
    thread.ticked = true;
    if (thread.cpu_due_ns) thread.cpu_due_ns += uint64_t{ticks} * period_of(control::page().cpu_rate);
    loop_turns::tick(thread, now);
  }
  if (now < thread.slow.quiet_until_ns) [[unlikely]] {
    thread.slow.passed[wall] += ticks;
    if (wall) thread.long_wait.sample.time_ns = now;
    return;
  }
  take_sample(thread, context, now, wall, ticks + std::exchange(thread.slow.passed[wall], 0));
  if (!thread.foreign) housekeeping(now);
  slow_down(thread, now);
}

}  // namespace aiflame::timers
