#include "sampler/interposed_signals.hpp"

#include "base/large.hpp"
#include "base/own_process.hpp"
#include "base/real.hpp"
#include "sampler/disposition.hpp"
#include "sampler/redelivery.hpp"
#include "sampler/signals.hpp"
#include "sampler/threads.hpp"
#include "sampler/waiting.hpp"
#include "spool/control.hpp"

#include <ucontext.h>

namespace aiflame::signals {

namespace {

Real<int(int, const struct sigaction*, struct sigaction*), "sigaction"> real_sigaction;

AIFLAME_LARGE Wanted wanted[NSIG];
AIFLAME_LARGE Wanted::Table<NSIG> places;

void on_signal(int signal, siginfo_t* info, void* context) {
  Disposition theirs = wanted[signal].read();
  if (counting() && threads::may_use_locals(static_cast<ucontext_t*>(context))) seen().others++;
  if (!is_function(theirs)) return;
  // It arrived while a tick ran: the kernel had already set up the call to be made again, as the tick's handler wants it.
  if (!(theirs.sa_flags & SA_RESTART)) waiting::end_call(static_cast<ucontext_t*>(context));
  redelivery::call(signal, info, static_cast<ucontext_t*>(context), __builtin_dwarf_cfa(), theirs, nullptr);
}

bool wants_us(const struct sigaction& action) noexcept { return is_function(action) && (counting() || action.sa_flags & SA_ONSTACK); }

}  // namespace

bool counting() noexcept { return control::page().wall_rate != 0 && installed(); }

bool interposed(int signal) noexcept { return signal > 0 && signal < NSIG && (counting() || is_function(wanted[signal].read())); }

int exchange_interposed(int signal, const struct sigaction* action, struct sigaction* before) noexcept {
  if (signal <= 0 || signal >= NSIG) return real_sigaction(signal, action, before);
  struct sigaction old = wanted[signal].read(), kernel;
  // A vfork child has its own dispositions in the kernel, but our table belongs to its parent.
  bool ours_in_front = action && installed() && own_process() && wants_us(*action);
  struct sigaction ours;
  if (ours_in_front) {
    ours = *action;
    ours.sa_sigaction = on_signal;
    ours.sa_flags |= SA_SIGINFO;
    wanted[signal].exchange(*action, places, static_cast<uint32_t>(signal));
  }
  if (real_sigaction(signal, ours_in_front ? &ours : action, &kernel) != 0) {
    if (ours_in_front) wanted[signal].exchange(old, places, static_cast<uint32_t>(signal));
    return -1;
  }
  if (before) *before = kernel.sa_sigaction == on_signal ? old : kernel;
  return 0;
}

}  // namespace aiflame::signals
