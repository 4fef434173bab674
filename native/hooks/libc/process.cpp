// Fork and the ways out of a process.
#include "base/clock.hpp"
#include "collector.hpp"
#include "hooks/libc/interruptible_calls.hpp"
#include "hooks/libc/resolve.hpp"
#include "hooks/shared/exported.hpp"

#include <pthread.h>
#include <unistd.h>
#include <atomic>
#include <cstdlib>

namespace aiflame::hooks {

namespace {

Real<void(int), "_exit"> real_exit_now;
Real<pid_t(), "_Fork"> real_bare_fork;

void after_fork_in_child() noexcept {
  if (own_this_fork()) collector::after_fork_child();
}

// exit_group() runs no destructors, so the process's end is written here. A vfork child leaves its parent's memory alone.
void ending() noexcept { collector::before_exit(); }

}  // namespace

void resolve() noexcept {
  static std::atomic<bool> done{false};
  if (done.exchange(true)) return;
  own_this_process();
  next_definition::learn();
  remember_clock();
  resolve_signals();
  resolve_interruptible();
  resolve_interruptible_ipc();
  resolve_process();
  resolve_exec();
  resolve_threads();
  resolve_dlclose();
  resolve_sandbox();
  resolve_identity();
}

void resolve_process() noexcept {
  find_now(real_exit_now);
  find_all(real_bare_fork);
  pthread_atfork(collector::before_fork, collector::after_fork_parent, after_fork_in_child);
  // Registered first, so run last.
  at_quick_exit([] { ending(); });
}

}  // namespace aiflame::hooks

using namespace aiflame;
using namespace aiflame::hooks;

// fork() and daemon() run the handlers of pthread_atfork; _Fork() alone runs none.
AIFLAME_EXPORT pid_t _Fork() noexcept {
  if (!own_process()) return real_bare_fork();
  collector::before_fork();
  pid_t pid = real_bare_fork();
  pid == 0 ? after_fork_in_child() : collector::after_fork_parent();
  return pid;
}

AIFLAME_EXPORT __attribute__((noreturn)) void _exit(int status) noexcept {
  ending();
  real_exit_now(status);
  __builtin_unreachable();
}

AIFLAME_EXPORT __attribute__((noreturn)) void _Exit(int status) noexcept {
  ending();
  real_exit_now(status);
  __builtin_unreachable();
}
