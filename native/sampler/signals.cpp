#include "sampler/signals.hpp"

#include "base/clock.hpp"
#include "base/large.hpp"
#include "base/own_process.hpp"
#include "base/processor.hpp"
#include "base/real.hpp"
#include "base/safe_load.hpp"
#include "base/sys.hpp"
#include "sampler/disposition.hpp"
#include "sampler/private_stack.hpp"
#include "sampler/redelivery.hpp"
#include "sampler/threads.hpp"
#include "sampler/tick_stack.hpp"
#include "sampler/waiting.hpp"
#include "spool/control.hpp"
#include "spool/spool.hpp"

#include <sys/mman.h>
#include <ucontext.h>
#include <atomic>
#include <cerrno>

namespace aiflame::signals {

namespace {

using Mask = uint64_t;  // the kernel's sigset_t on x86-64

constexpr int kShared[4] = {SIGPROF, SIGSEGV, SIGBUS, SIGSYS};
constexpr Mask bit(int signal) noexcept { return Mask{1} << (signal - 1); }
constexpr Mask kFaults = bit(SIGSEGV) | bit(SIGBUS) | bit(SIGSYS);
// Everything else waits while a tick runs, so that no handler of the program can jump out of it.
constexpr Mask kDuringTick = ~(kFaults | bit(SIGILL) | bit(SIGFPE) | bit(SIGTRAP));

Real<decltype(::sigaction), "sigaction"> real_sigaction;
Real<decltype(::pthread_sigmask), "pthread_sigmask"> real_pthread_sigmask;

std::atomic<Tick> tick_handler{nullptr};
std::atomic<bool> in_place{false};
std::atomic<bool> repeats_ended_calls{false};

thread_local Inherited believed;
thread_local Seen arrived;
thread_local uint32_t faults_open;
// A vfork child uses its parent's thread memory: its believed mask is kept apart, under its own pid.
thread_local Inherited believed_in_child;
thread_local uint32_t child_pid;

uint32_t place_of(int signal) noexcept { return signal == SIGPROF ? 0 : signal == SIGSEGV ? 1 : signal == SIGBUS ? 2 : 3; }
Wanted wanted_of[4];
AIFLAME_LARGE_FIRST Wanted::Table<4> wanted_places;
Wanted& wanted(int signal) noexcept { return wanted_of[place_of(signal)]; }
Disposition exchange_wanted(int signal, const Disposition& disposition) noexcept {
  return wanted(signal).exchange(disposition, wanted_places, place_of(signal));
}

Mask mask_of(const sigset_t& set) noexcept { return *reinterpret_cast<const Mask*>(&set); }
void set_mask(sigset_t& set, Mask mask) noexcept { *reinterpret_cast<Mask*>(&set) = mask; }

Mask kernel_mask(int how, Mask mask) noexcept {
  Mask before = 0;
  sys::call(SYS_rt_sigprocmask, how, reinterpret_cast<long>(&mask), reinterpret_cast<long>(&before), sizeof mask);
  return before;
}

Inherited& belief() noexcept {
  if (own_process()) [[likely]]
    return believed;
  uint32_t pid = sys::process_id();
  if (child_pid != pid) {
    child_pid = pid;
    believed_in_child = believed;
  }
  return believed_in_child;
}

// Sends the signal again, for the handler that receives it once it is unblocked. The kernel lets only the main thread claim that it came from
// kill() or the kernel itself: elsewhere it arrives as queued, from the same sender.
void send_again(int signal, siginfo_t* info) noexcept {
  auto send = [&](siginfo_t* what) { return sys::call(SYS_rt_sigqueueinfo, sys::process_id(), signal, reinterpret_cast<long>(what)); };
  if (!sys::failed(send(info))) return;
  siginfo_t queued = *info;
  queued.si_code = SI_QUEUE;
  send(&queued);
}

void hold(int signal, siginfo_t* info, ucontext_t* context) noexcept {
  set_mask(context->uc_sigmask, mask_of(context->uc_sigmask) | bit(signal));
  send_again(signal, info);
}

// Restores the default action and sends the same signal again: it takes effect in the interrupted code when the handler has returned, so that the
// status and a core file are the same as without us.
void die(int signal, siginfo_t* info) noexcept {
  KernelAction none{};
  sys::call(SYS_rt_sigaction, signal, reinterpret_cast<long>(&none), 0, sizeof(Mask));
  sys::call(SYS_rt_tgsigqueueinfo, sys::process_id(), sys::thread_id(), signal, reinterpret_cast<long>(info));
}

void pass_on(int signal, siginfo_t* info, ucontext_t* context, const void* cfa) {
  Disposition disposition = wanted(signal).read();
  bool fault = signal != SIGPROF && info->si_code > 0;
  bool locals = threads::may_use_locals(context);
  if (locals && (signal == SIGPROF ? believed.ticks_blocked : faults_open && !fault)) return hold(signal, info, context);
  if (disposition.sa_handler == SIG_IGN && !fault) return;
  if (!is_function(disposition)) return die(signal, info);
  if (disposition.sa_flags & static_cast<int>(SA_RESETHAND)) wanted(signal).reset(disposition.sa_handler, wanted_places, place_of(signal));
  if (locals) arrived.others++;
  if (signal == SIGPROF && !(disposition.sa_flags & SA_RESTART)) waiting::end_call(context);
  Mask own = disposition.sa_flags & SA_NODEFER ? 0 : bit(signal);
  Mask mask = mask_of(context->uc_sigmask) | mask_of(disposition.sa_mask) | own;
  redelivery::call(signal, info, context, cfa, disposition, &mask);
}

// A tick, and its use of the interrupted thread.
struct Arrival {
  Tick tick;
  Thread& thread;
  siginfo_t* info;
  ucontext_t* context;

  void run() noexcept {
    if (thread.foreign) {
      tick(thread, info, context);
      thread.foreign = !thread.block;  // it may have led %fs elsewhere for a moment
      return;
    }
    int error = errno;
    arrived.ticks++;
    faults_open++;
    tick(thread, info, context);
    faults_open--;
    errno = error;
  }
};

void on_tick(siginfo_t* info, ucontext_t* context) noexcept {
  // Loads that may fault follow, and even the next instruction may be one.
  if (mask_of(context->uc_sigmask) & kFaults) [[unlikely]]
    kernel_mask(SIG_UNBLOCK, kFaults);
  // The program has entered a sandbox without libc that only allows us to return from here.
  if (!clock_left_alone() && !clock_is_readable()) return;
  if (info->si_timerid == kGreeting) return threads::greeted(context, info);
  Thread* thread = threads::interrupted(context);
  Tick tick = tick_handler.load(std::memory_order_relaxed);
  if (!thread || !tick) return;
  Arrival arrival{tick, *thread, info, context};
  bool apart = tick_stack::owner(context) && !tick_stack::holds(*thread, static_cast<uint64_t>(context->uc_mcontext.gregs[REG_RSP]));
  if (apart) [[likely]]
    return arrival.run();
  auto run = [](void* pointer) noexcept { static_cast<Arrival*>(pointer)->run(); };
  private_stack::run(context, run, &arrival);
}

void on_profile(int signal, siginfo_t* info, void* context_pointer) {
  auto* context = static_cast<ucontext_t*>(context_pointer);
  if (info->si_code != SI_TIMER || info->si_value.sival_int != kTickCookie) return pass_on(signal, info, context, __builtin_dwarf_cfa());
  on_tick(info, context);
  if (waiting::to_be_repeated(context) && waiting::interrupting_signal_pending(context, false)) waiting::end_call(context);
  if (repeats_ended_calls.load(std::memory_order_relaxed) && !control::page().wall_rate) waiting::repeat_ended(context);
}

// Maps a page of ours again that the program has unmapped or protected. If the file system cannot supply it (the file was cut off, or the server is
// gone), or the program has put another page in its place, it becomes plain memory: data stored there are lost, recording stops, and the program
// goes on.
bool replace_lost_page(int signal, const siginfo_t* info) noexcept {
  constexpr uint64_t kPage = 4096;
  auto address = reinterpret_cast<uint64_t>(info->si_addr);
  if (info->si_code <= 0) return false;
  bool control = control::covers(address);
  if (!control && !spool::covers(address)) return false;
  bool taken = signal == SIGSEGV && (info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR);
  if (taken && (control ? control::map_again() : spool::map_again(address))) {
    spool::map_missing();
    return true;
  }
  long result =
      sys::call(SYS_mmap, static_cast<long>(address & ~(kPage - 1)), kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (sys::failed(result)) return false;
  // The program that protected that page may have protected this one, too: a fault in here would end it.
  sys::call(SYS_mprotect, reinterpret_cast<long>(&control::page()), kPage, PROT_READ | PROT_WRITE);
  control::stop(schema::StopReason::IO_ERROR, EIO);
  return true;
}

void on_fault(int signal, siginfo_t* info, void* context_pointer) {
  auto* context = static_cast<ucontext_t*>(context_pointer);
  auto& pc = context->uc_mcontext.gregs[REG_RIP];
  if (uint64_t resume = safe_load_resume(static_cast<uint64_t>(pc)); resume && info->si_code > 0)
    pc = static_cast<greg_t>(resume);
  else if (!replace_lost_page(signal, info))
    pass_on(signal, info, context, __builtin_dwarf_cfa());
}

// A filter that the program installed without libc forbids one of our system calls, in a tick, say: the call fails, as if the kernel did not
// support it, and recording stops in the process.
void on_forbidden_call(int signal, siginfo_t* info, void* context_pointer) {
  auto* context = static_cast<ucontext_t*>(context_pointer);
  constexpr int kSeccomp = 1;  // SYS_SECCOMP
  if (info->si_code == kSeccomp && sys::is_ours(reinterpret_cast<uint64_t>(info->si_call_addr))) {
    context->uc_mcontext.gregs[REG_RAX] = -EPERM;
    control::stop(schema::StopReason::SANDBOX, 0);
  } else {
    pass_on(signal, info, context, __builtin_dwarf_cfa());
  }
}

void (*handler_of(int signal) noexcept)(int, siginfo_t*, void*) {
  return signal == SIGPROF ? on_profile : signal == SIGSYS ? on_forbidden_call : on_fault;
}

// Our disposition of a signal. For faults, the kernel decides before our handler whether calls are restarted and on which stack the handler runs,
// so these flags follow the program's own handler; without one, a fault that ends the program ends it where it happened. Ticks restart every call
// that can be restarted (sort has a handler for SIGPROF without SA_RESTART); the program's own SIGPROF is made to interrupt it (pass_on).
Disposition ours(int signal) noexcept {
  Disposition theirs = wanted(signal).read();
  bool function = is_function(theirs);
  Disposition disposition{};
  disposition.sa_sigaction = handler_of(signal);
  bool follows = function && signal != SIGPROF;
  disposition.sa_flags = SA_SIGINFO | (follows ? theirs.sa_flags & (SA_RESTART | SA_ONSTACK) : SA_RESTART) | (signal == SIGPROF ? SA_ONSTACK : 0);
  set_mask(disposition.sa_mask, signal == SIGPROF ? kDuringTick : 0);
  return disposition;
}

bool apply(int signal) noexcept {
  for (;;) {
    const void* version = wanted(signal).version();
    Disposition disposition = ours(signal);
    if (real_sigaction(signal, &disposition, nullptr) != 0) return false;
    if (wanted(signal).version() == version) return true;
  }
}

bool is_ours(int signal, const Disposition& disposition) noexcept { return disposition.sa_sigaction == handler_of(signal); }

// Installs our handler for the signal, and stores the previous disposition as the program's.
bool put_in_front(int signal) noexcept {
  Disposition found{};
  if (real_sigaction(signal, nullptr, &found) != 0) return false;
  if (is_ours(signal, found)) return true;
  exchange_wanted(signal, found);
  return apply(signal);
}

// SIGPROF blocked for real becomes SIGPROF believed to be blocked.
void take_over_mask() noexcept {
  Mask mask = kernel_mask(SIG_BLOCK, 0);
  believed.faults_blocked = (mask & kFaults) != 0;
  if (!(mask & bit(SIGPROF)) || is_function(wanted(SIGPROF).read())) return;
  believed.ticks_blocked = true;
  kernel_mask(SIG_UNBLOCK, bit(SIGPROF));
}

}  // namespace

bool install(Tick tick) noexcept {
  tick_handler.store(tick);
  for (int signal : kShared)
    if (!put_in_front(signal)) return false;
  if (!in_place.exchange(true)) take_over_mask();
  return true;
}

void repeat_ended_calls() noexcept { repeats_ended_calls.store(true, std::memory_order_relaxed); }

void keep() noexcept {
  if (!installed()) return;
  for (int signal : kShared) {
    // Asked without libc: it is not for every thread's ticks.
    KernelAction found{};
    if (sys::failed(sys::call(SYS_rt_sigaction, signal, 0, reinterpret_cast<long>(&found), sizeof(Mask)))) return;
    if (found.handler != reinterpret_cast<uint64_t>(handler_of(signal))) put_in_front(signal);
  }
}

void uninstall() noexcept {
  if (!in_place.exchange(false)) return;
  for (int signal : kShared) {
    Disposition found{};
    if (real_sigaction(signal, nullptr, &found) != 0 || !is_ours(signal, found)) continue;
    Disposition theirs = wanted(signal).read();
    // Ignoring a signal drops pending ones in every thread: a tick under way must not cause the default action.
    Disposition ignore{};
    ignore.sa_handler = SIG_IGN;
    if (signal == SIGPROF) real_sigaction(signal, &ignore, nullptr);
    real_sigaction(signal, &theirs, nullptr);
  }
  if (believed.ticks_blocked) kernel_mask(SIG_BLOCK, bit(SIGPROF));
  believed.ticks_blocked = false;
}

bool installed() noexcept { return in_place.load(std::memory_order_relaxed); }

void exchange(int signal, const Disposition* disposition, Disposition* before) noexcept {
  if (!disposition) {
    *before = wanted(signal).read();
    return;
  }
  Disposition old = exchange_wanted(signal, *disposition);
  apply(signal);
  if (before) *before = old;
  if (signal == SIGPROF && is_function(*disposition) && believed.ticks_blocked) {
    believed.ticks_blocked = false;
    kernel_mask(SIG_BLOCK, bit(SIGPROF));
  }
}

int change_mask(int how, const sigset_t* set, sigset_t* before) noexcept {
  if (!installed()) return real_pthread_sigmask(how, set, before);
  if (!set) {
    int error = real_pthread_sigmask(how, set, before);
    if (!error && before && belief().ticks_blocked) sigaddset(before, SIGPROF);
    return error;
  }
  Mask mask = mask_of(*set);
  bool touches = how == SIG_SETMASK ? believed.ticks_blocked || believed.faults_blocked || (mask & (kFaults | bit(SIGPROF)))
                                    : (mask & (kFaults | bit(SIGPROF))) != 0;
  if (!touches && !(before && believed.ticks_blocked)) return real_pthread_sigmask(how, set, before);
  Inherited& now = belief();
  Inherited old = now;
  sigset_t asked = *set;
  // A vfork child has no ticks to lose, and its new program inherits the signals that it leaves blocked.
  bool pretend = (mask & bit(SIGPROF)) && how != SIG_UNBLOCK && &now == &believed && !is_function(wanted(SIGPROF).read());
  if (pretend) sigdelset(&asked, SIGPROF);
  if (how == SIG_SETMASK || (mask & bit(SIGPROF))) now.ticks_blocked = pretend;
  if (how == SIG_SETMASK || (mask & kFaults)) now.faults_blocked = how != SIG_UNBLOCK && (mask & kFaults);
  int error = real_pthread_sigmask(how, &asked, before);
  if (error)
    now = old;
  else if (before && old.ticks_blocked)
    sigaddset(before, SIGPROF);
  return error;
}

Inherited inherited() noexcept { return believed; }
void inherit(Inherited from) noexcept {
  believed = from;
  if (installed()) take_over_mask();
}

Seen& seen() noexcept { return arrived; }

FaultsOpen::FaultsOpen() noexcept : mask_(0), opened_(believed.faults_blocked && !faults_open) {
  if (!opened_) return;
  faults_open++;
  mask_ = kernel_mask(SIG_UNBLOCK, kFaults);
}

FaultsOpen::FaultsOpen(const Thread& thread) noexcept : mask_(0), opened_(!thread.foreign && believed.faults_blocked && !faults_open) {
  if (!opened_) return;
  faults_open++;
  mask_ = kernel_mask(SIG_UNBLOCK, kFaults);
}

FaultsOpen::~FaultsOpen() noexcept {
  if (!opened_) return;
  kernel_mask(SIG_SETMASK, mask_);
  faults_open--;
}

TrueFace::TrueFace() noexcept {
  if (!installed()) return;
  blocked_ = belief().ticks_blocked;
  if (blocked_) kernel_mask(SIG_BLOCK, bit(SIGPROF));
  for (int at = 0; at < 4; at++) {
    Disposition disposition = wanted_of[at].read();
    ignored_[at] = disposition.sa_handler == SIG_IGN;
    if (ignored_[at]) real_sigaction(kShared[at], &disposition, nullptr);
  }
}

TrueFace::~TrueFace() noexcept {
  for (int at = 0; at < 4; at++)
    if (ignored_[at]) apply(kShared[at]);
  if (blocked_) kernel_mask(SIG_UNBLOCK, bit(SIGPROF));
}

}  // namespace aiflame::signals
