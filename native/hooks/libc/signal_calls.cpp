// The calls by which a program speaks of its signals. For the three that we share with it they are answered by sampler/signals;
// everything else goes to libc as it came.
#include "base/sys.hpp"
#include "hooks/libc/resolve.hpp"
#include "hooks/shared/exported.hpp"
#include "sampler/interposed_signals.hpp"
#include "sampler/signals.hpp"
#include "sampler/threads.hpp"
#include "unwind/python_frames.hpp"

#include <sys/signalfd.h>
#include <cerrno>
#include <csetjmp>
#include <csignal>

namespace aiflame::hooks {

namespace {

Real<decltype(::sigaction), "sigaction"> real_sigaction;
Real<decltype(::signal), "signal"> real_signal;
Real<decltype(::signal), "sysv_signal"> real_sysv_signal;
Real<int(int, int), "siginterrupt"> real_siginterrupt;
Real<int(int), "sigignore"> real_sigignore;
Real<sighandler_t(int, sighandler_t), "sigset"> real_sigset;
Real<int(int, const sigset_t*, int), "signalfd"> real_signalfd;
Real<decltype(::sigaltstack), "sigaltstack"> real_sigaltstack;
Real<void(jmp_buf, int), "longjmp"> real_longjmp;
Real<void(jmp_buf, int), "__longjmp_chk"> real_checked_jump;

// siginterrupt() changes the meaning of later signal() calls.
std::atomic<uint64_t> interrupting{0};
constexpr uint64_t bit(int signal) noexcept { return uint64_t{1} << (signal - 1); }

bool ours(int signal) noexcept { return signals::shared(signal) && signals::installed() && own_process(); }

int change_action(int signal, const struct sigaction* wanted, struct sigaction* before) noexcept {
  if (ours(signal)) {
    if (wanted || before) signals::exchange(signal, wanted, before);
    return 0;
  }
  if (!signals::shared(signal)) return signals::exchange_interposed(signal, wanted, before);
  // A vfork child: the kernel holds a table of its own for it, and ours is its parent's.
  int result = real_sigaction(signal, wanted, before);
  if (result == 0 && before && signals::installed()) {
    struct sigaction kernel = *before;
    signals::exchange(signal, nullptr, before);
    if (kernel.sa_handler == SIG_DFL || kernel.sa_handler == SIG_IGN) *before = kernel;
  }
  return result;
}

sighandler_t set_handler(int signal, sighandler_t handler, int flags, bool block_itself) noexcept {
  struct sigaction wanted{}, before;
  wanted.sa_handler = handler;
  wanted.sa_flags = flags;
  if (block_itself) sigaddset(&wanted.sa_mask, signal);
  return change_action(signal, &wanted, &before) == 0 ? before.sa_handler : SIG_ERR;
}

bool handled_here(int signal) noexcept { return ours(signal) || signals::interposed(signal); }

sighandler_t bsd(int signal, sighandler_t handler) noexcept {
  bool interrupts = interrupting.load(std::memory_order_relaxed) & bit(signal);
  return set_handler(signal, handler, interrupts ? 0 : SA_RESTART, true);
}

int change_mask_errno(int how, const sigset_t* set, sigset_t* before) noexcept {
  int error = signals::change_mask(how, set, before);
  if (!error) return 0;
  errno = error;
  return -1;
}

}  // namespace

void resolve_signals() noexcept {
  find_all(real_sigaction, real_signal, real_sysv_signal, real_siginterrupt, real_sigignore, real_sigset, real_signalfd, real_sigaltstack,
           real_longjmp, real_checked_jump);
}

}  // namespace aiflame::hooks

using namespace aiflame;
using namespace aiflame::hooks;

AIFLAME_EXPORT int sigaction(int signal, const struct sigaction* wanted, struct sigaction* before) noexcept {
  // A child of vfork has its parent's memory and no interpreter of its own. CPython asks for every signal while it starts: the first moment at which
  // there is an interpreter and no handler of it yet.
  if (own_process()) python::schedule_self_test();
  return change_action(signal, wanted, before);
}
AIFLAME_EXPORT int __sigaction(int signal, const struct sigaction* wanted, struct sigaction* before) noexcept {
  return change_action(signal, wanted, before);
}

AIFLAME_EXPORT sighandler_t signal(int number, sighandler_t handler) noexcept {
  return handled_here(number) ? bsd(number, handler) : real_signal(number, handler);
}
AIFLAME_EXPORT sighandler_t bsd_signal(int number, sighandler_t handler) noexcept {
  return handled_here(number) ? bsd(number, handler) : real_signal(number, handler);
}
AIFLAME_EXPORT sighandler_t ssignal(int number, sighandler_t handler) noexcept {
  return handled_here(number) ? bsd(number, handler) : real_signal(number, handler);
}

AIFLAME_EXPORT sighandler_t sysv_signal(int number, sighandler_t handler) noexcept {
  constexpr int kFlags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
  return handled_here(number) ? set_handler(number, handler, kFlags, false) : real_sysv_signal(number, handler);
}
AIFLAME_EXPORT sighandler_t __sysv_signal(int number, sighandler_t handler) noexcept { return sysv_signal(number, handler); }

AIFLAME_EXPORT int siginterrupt(int number, int interrupt) noexcept {
  if (!handled_here(number)) return real_siginterrupt(number, interrupt);
  if (!signals::shared(number) && real_siginterrupt(number, interrupt) != 0) return -1;
  struct sigaction action{};
  change_action(number, nullptr, &action);
  if (interrupt) {
    interrupting.fetch_or(bit(number));
    action.sa_flags &= ~SA_RESTART;
  } else {
    interrupting.fetch_and(~bit(number));
    action.sa_flags |= SA_RESTART;
  }
  return change_action(number, &action, nullptr);
}

AIFLAME_EXPORT int sigignore(int number) noexcept {
  if (!handled_here(number)) return real_sigignore(number);
  return set_handler(number, SIG_IGN, 0, false) == SIG_ERR ? -1 : 0;
}

AIFLAME_EXPORT sighandler_t sigset(int number, sighandler_t handler) noexcept {
  if (!handled_here(number)) return real_sigset(number, handler);
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, number);
  struct sigaction action{};
  if (handler == SIG_HOLD) {
    if (change_mask_errno(SIG_BLOCK, &set, &before) != 0 || change_action(number, nullptr, &action) != 0) return SIG_ERR;
    return sigismember(&before, number) ? SIG_HOLD : action.sa_handler;
  }
  sighandler_t old = set_handler(number, handler, 0, false);
  if (old == SIG_ERR || change_mask_errno(SIG_UNBLOCK, &set, &before) != 0) return SIG_ERR;
  return sigismember(&before, number) ? SIG_HOLD : old;
}

AIFLAME_EXPORT int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) noexcept { return signals::change_mask(how, set, before); }
AIFLAME_EXPORT int sigprocmask(int how, const sigset_t* set, sigset_t* before) noexcept { return change_mask_errno(how, set, before); }

// The calls of 4.2BSD and System V, which libc makes of its inner sigprocmask.
AIFLAME_EXPORT int sighold(int number) noexcept {
  sigset_t set;
  sigemptyset(&set);
  return sigaddset(&set, number) != 0 ? -1 : change_mask_errno(SIG_BLOCK, &set, nullptr);
}
AIFLAME_EXPORT int sigrelse(int number) noexcept {
  sigset_t set;
  sigemptyset(&set);
  return sigaddset(&set, number) != 0 ? -1 : change_mask_errno(SIG_UNBLOCK, &set, nullptr);
}

namespace {
int change_low_mask(int how, int mask) noexcept {
  sigset_t set, before;
  sigemptyset(&set);
  *reinterpret_cast<uint64_t*>(&set) = static_cast<unsigned>(mask);
  if (change_mask_errno(how, &set, &before) != 0) return -1;
  return static_cast<int>(*reinterpret_cast<uint64_t*>(&before));
}
}  // namespace

AIFLAME_EXPORT int sigblock(int mask) noexcept { return change_low_mask(SIG_BLOCK, mask); }
AIFLAME_EXPORT int sigsetmask(int mask) noexcept { return change_low_mask(SIG_SETMASK, mask); }
AIFLAME_EXPORT int siggetmask() noexcept { return change_low_mask(SIG_BLOCK, 0); }

// "Every signal" in a signalfd must not hand our ticks to the program's event loop. A program with a profiling handler keeps SIGPROF.
AIFLAME_EXPORT int signalfd(int fd, const sigset_t* mask, int flags) noexcept {
  if (!sigismember(mask, SIGPROF) || !ours(SIGPROF)) return real_signalfd(fd, mask, flags);
  sigset_t fewer = *mask;
  sigdelset(&fewer, SIGPROF);
  return real_signalfd(fd, &fewer, flags);
}

// The kernel has our stack for ticks; the program's own is in a table.
AIFLAME_EXPORT int sigaltstack(const stack_t* wanted, stack_t* before) noexcept {
  Thread* thread = own_process() ? threads::self_if_known() : nullptr;
  if (!thread || !signals::installed()) return real_sigaltstack(wanted, before);
  if (!thread->ticks_apart) {
    int result = real_sigaltstack(wanted, before);
    if (result == 0 && wanted && wanted->ss_flags & SS_DISABLE) tick_stack::install(*thread);
    return result;
  }
  signals::FaultsOpen faults;
  int error = tick_stack::exchange(*thread, wanted, before, reinterpret_cast<uint64_t>(__builtin_frame_address(0)));
  if (error) errno = error;
  return error ? -1 : 0;
}

// longjmp() of programs built with _FORTIFY_SOURCE: a jump down the stack is right where it leaves an alternate stack, of which libc asks
// the kernel. That knows ours alone.
AIFLAME_EXPORT [[noreturn]] void __longjmp_chk(jmp_buf where, int value) {
  Thread* thread = own_process() ? threads::self_if_known() : nullptr;
  bool leaves = thread && thread->ticks_apart && thread->theirs.holds(reinterpret_cast<uint64_t>(__builtin_frame_address(0)));
  (leaves ? real_longjmp.find() : real_checked_jump.find())(where, value);
  __builtin_unreachable();
}
