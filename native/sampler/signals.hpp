// The signals that we share with the program: SIGPROF (ticks), SIGSEGV and SIGBUS (faults of safe_load), SIGSYS (system calls of ours that a
// sandbox forbids).
//
// A tick runs on a stack of ours (sampler/tick_stack) and touches nothing of the thread that it interrupts: no stack, no errno, and no
// thread-local memory before it is known that there is some.
//
// Ours are installed first and stay installed: where the library is preloaded, the program's sigaction() and signal() for these
// signals are answered from a table of what it asked for, and what is not ours is passed on to what it asked for, with its mask
// and flags. A program never learns that we are there.
//
// Blocking: a thread that blocks SIGPROF while the program has no handler for it only believes so, else "block everything" in
// worker threads would silence their ticks. SIGSEGV and SIGBUS are blocked for real when the program says so; a capture opens
// them for its own time (FaultsOpen).
#pragma once
#include <csignal>
#include <cstdint>

namespace aiflame {
struct Thread;
}

namespace aiflame::signals {

using Tick = void (*)(Thread&, siginfo_t*, ucontext_t*) noexcept;

// sigev_value of our timers: what tells our ticks from the program's own SIGPROF.
inline constexpr int kTickCookie = 0x41464C4D;
// si_timerid of a signal that we send ourselves: see threads::greeted().
inline constexpr int kGreeting = -2;

// Installs the handlers. False when the kernel refuses.
bool install(Tick tick) noexcept;
// Where we are not preloaded, or a program asks the kernel directly, a handler of ours may have been replaced: it is put back in
// front of the new one. Now and then; safe in a handler.
void keep() noexcept;
// Gives the program's own dispositions back where ours are still in place. Delete the timers first: pending ticks are dropped here.
void uninstall() noexcept;
bool installed() noexcept;

constexpr bool shared(int signal) noexcept { return signal == SIGPROF || signal == SIGSEGV || signal == SIGBUS || signal == SIGSYS; }

// sigaction() of a shared signal as the program sees it.
void exchange(int signal, const struct sigaction* wanted, struct sigaction* before) noexcept;

// pthread_sigmask() as the program sees it; 0 or an error number.
int change_mask(int how, const sigset_t* set, sigset_t* before) noexcept;

// What this thread believes about its mask, as a new thread inherits it.
struct Inherited {
  bool ticks_blocked, faults_blocked;
};
Inherited inherited() noexcept;
void inherit(Inherited from) noexcept;

// Signals that arrived in this thread: who retries an interrupted call compares these.
struct Seen {
  uint32_t ticks, others;
};
Seen& seen() noexcept;

// While it lives, a fault of safe_load cannot kill a thread that has blocked SIGSEGV or SIGBUS. Every capture has one.
class FaultsOpen {
 public:
  FaultsOpen() noexcept;
  // In a tick, perhaps: what interrupts a thread without thread-local memory has opened them itself.
  explicit FaultsOpen(const Thread& thread) noexcept;
  ~FaultsOpen() noexcept;
  FaultsOpen(const FaultsOpen&) = delete;
  FaultsOpen& operator=(const FaultsOpen&) = delete;

 private:
  uint64_t mask_;
  bool opened_;
};

// While it lives, the kernel holds what a new program is to inherit: the blocked SIGPROF and the ignored signals of our table.
// Around exec and posix_spawn; writes nothing that the parent of a vfork child would see.
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
