// The signals that we share with the program: SIGPROF (ticks), SIGSEGV and SIGBUS (faults of safe_load), SIGSYS (system calls of ours that a
// sandbox forbids).
//
// A tick runs on a stack of ours (sampler/tick_stack) and touches nothing of the interrupted thread: not its stack, nor errno, nor thread-local
// memory before we know that there is some.
//
// Our handlers are installed first and stay installed: where the library is preloaded, the program's sigaction() and signal() for these signals use
// a table of the program's dispositions, and signals that are not ours are passed on to the program's handler, with its mask and flags. The program
// never notices us.
//
// Blocking: a thread that blocks SIGPROF while the program has no handler for it only believes that it is blocked, else "block everything" in
// worker threads would silence their ticks. SIGSEGV and SIGBUS are really blocked when the program asks for it; a capture unblocks them while it
// runs (FaultsOpen).
#pragma once
#include <csignal>
#include <cstdint>

namespace aiflame {
struct Thread;
}

namespace aiflame::signals {

using Tick = void (*)(Thread&, siginfo_t*, ucontext_t*) noexcept;

// sigev_value of our timers, which distinguishes our ticks from the program's own SIGPROF.
inline constexpr int kTickCookie = 0x41464C4D;
// si_timerid of a signal that we send ourselves: see threads::greeted().
inline constexpr int kGreeting = -2;
// si_overrun of a greeting from `aiflame attach`, which has lent the thread an alternate stack for this one signal.
inline constexpr int kLentStack = -2;

// Installs the handlers. False if the kernel refuses.
bool install(Tick tick) noexcept;
// From now on a system call that a tick has ended is made again. For a program that none of our wrappers serves.
void repeat_ended_calls() noexcept;
// If we are not preloaded, or a program calls the kernel directly, a handler of ours may have been replaced: puts ours back in front of the new one.
// Called from time to time; safe in a handler.
void keep() noexcept;
// Restores the program's own dispositions where ours are still installed. Delete the timers first: pending ticks are dropped here.
void uninstall() noexcept;
bool installed() noexcept;

constexpr bool shared(int signal) noexcept { return signal == SIGPROF || signal == SIGSEGV || signal == SIGBUS || signal == SIGSYS; }

// sigaction() of a shared signal as the program sees it.
void exchange(int signal, const struct sigaction* wanted, struct sigaction* before) noexcept;

// pthread_sigmask() as the program sees it; 0 or an error number.
int change_mask(int how, const sigset_t* set, sigset_t* before) noexcept;

// The mask that this thread believes it has, as a new thread inherits it.
struct Inherited {
  bool ticks_blocked, faults_blocked;
};
Inherited inherited() noexcept;
void inherit(Inherited from) noexcept;

// Number of signals that arrived in this thread: code that retries an interrupted call compares it.
struct Seen {
  uint32_t ticks, others;
};
Seen& seen() noexcept;

// While it exists, a fault of safe_load cannot kill a thread that has blocked SIGSEGV or SIGBUS. Every capture has one.
class FaultsOpen {
 public:
  FaultsOpen() noexcept;
  // It may be called in a tick: a handler that interrupts a thread without thread-local memory has unblocked them itself.
  explicit FaultsOpen(const Thread& thread) noexcept;
  ~FaultsOpen() noexcept;
  FaultsOpen(const FaultsOpen&) = delete;
  FaultsOpen& operator=(const FaultsOpen&) = delete;

 private:
  uint64_t mask_;
  bool opened_;
};

// While it exists, the kernel has the signal state that a new program is to inherit: the blocked SIGPROF and the ignored signals of our table. Used
// around exec and posix_spawn; writes nothing that the parent of a vfork child would see.
class TrueFace {
 public:
  TrueFace() noexcept;
  ~TrueFace() noexcept;
  TrueFace(const TrueFace&) = delete;
  TrueFace& operator=(const TrueFace&) = delete;

 private:
  bool blocked_ = false;
  bool ignored_[4] = {};
};

}  // namespace aiflame::signals
