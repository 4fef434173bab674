// Scenes of a program and its signals. Each prints its observations; a test compares those with and without the collector.
#include <fcntl.h>
#include <pthread.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <thread>

#include "ticks.hpp"

namespace {

volatile double sink;
volatile sig_atomic_t handled, nested;
sigjmp_buf back;

void burn(long turns) {
  double sum = 0;
  for (long turn = 0; turn < turns; turn++) sum += static_cast<double>(turn) * 0.5;
  sink = sum;
}

void print_mask(const char* what, const sigset_t& set) {
  printf("%s:", what);
  for (int signal = 1; signal < 32; signal++)
    if (sigismember(&set, signal) == 1) printf(" %d", signal);
  printf("\n");
}

void print_current_mask(const char* what) {
  sigset_t set;
  pthread_sigmask(SIG_BLOCK, nullptr, &set);
  print_mask(what, set);
}

void count(int) { handled = handled + 1; }
void count_info(int, siginfo_t* info, void*) { handled = handled + (info->si_code == SI_KERNEL ? 1 : 1000000); }

void install(int signal, void (*handler)(int), int flags) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

void round_trip() {
  for (int signal : {SIGPROF, SIGSEGV, SIGBUS, SIGUSR1}) {
    struct sigaction action{}, old{};
    action.sa_handler = count;
    action.sa_flags = SA_ONSTACK | SA_NODEFER | static_cast<int>(SA_RESETHAND);
    sigaddset(&action.sa_mask, SIGUSR2);
    printf("%d", sigaction(signal, &action, &old));
    printf(" old %d", old.sa_handler == SIG_DFL);
    sigaction(signal, nullptr, &old);
    printf(" handler %d flags %x usr2 %d\n", old.sa_handler == count, static_cast<unsigned>(old.sa_flags & ~0x04000000),
           sigismember(&old.sa_mask, SIGUSR2));
    printf("signal");
    printf(" %d", ::signal(signal, SIG_IGN) == count);
    printf(" %d", ssignal(signal, count) == SIG_IGN);
    sigaction(signal, nullptr, &old);
    printf(" bsd %x %d", static_cast<unsigned>(old.sa_flags & ~0x04000000), sigismember(&old.sa_mask, signal));
    printf(" %d", sysv_signal(signal, SIG_DFL) == count);
    siginterrupt(signal, 1);
    ::signal(signal, count);
    sigaction(signal, nullptr, &old);
    printf(" interrupting %x\n", static_cast<unsigned>(old.sa_flags & ~0x04000000));
    printf("sigset %d", sigset(signal, SIG_HOLD) == count);
    printf(" %d\n", sigset(signal, SIG_DFL) == SIG_HOLD);
  }
  struct sigaction bad{};
  printf("bad %d %d\n", sigaction(99, &bad, nullptr), sigaction(SIGKILL, &bad, nullptr));
}

// A handler that lets calls end early hears nothing of ticks; a signal of the program's own does end one.
void ended_calls() {
  struct sigaction action{};
  action.sa_handler = count;
  sigaction(SIGPROF, &action, nullptr);
  int ends[2];
  if (pipe(ends)) return;
  static std::atomic<bool> over{false};
  auto later = [&](auto what) {
    std::thread([&, what] {
      usleep(100'000);
      what();
    }).detach();
    char byte = 0;
    ssize_t got = read(ends[0], &byte, 1);
    over = true;
    printf("read %zd %d\n", got, got < 0 ? errno : 0);
  };
  later([&] {
    if (write(ends[1], "x", 1) != 1) abort();
  });
  pthread_t reader = pthread_self();
  // Again, should one merge with a tick that is on its way, or come before the read has begun.
  over = false;
  later([reader] {
    for (; !over; usleep(50'000)) pthread_kill(reader, SIGPROF);
  });
}

volatile sig_atomic_t is_reading, too_early;
void count_alarm(int) {
  handled = handled + 1;
  if (!is_reading) too_early = too_early + 1;
}

// Each alarm ends one read, also one that comes while a tick runs. The alarm is repeated late, for a read that the first one has not ended.
void alarms_end_calls() {
  install(SIGALRM, count_alarm, 0);
  int ends[2];
  if (pipe(ends)) return;
  int by_the_first = 0;
  constexpr int kAlarms = 1000, kLate = 200'000;
  for (int alarm = 0; alarm < kAlarms; alarm++) {
    itimerval once{.it_interval = {0, kLate}, .it_value = {0, 1000 + alarm % 7 * 150}};
    handled = 0;
    setitimer(ITIMER_REAL, &once, nullptr);
    char byte = 0;
    is_reading = 1;
    if (read(ends[0], &byte, 1) == -1 && errno == EINTR && handled == 1) by_the_first++;
    is_reading = 0;
  }
  // On a busy machine an alarm may come before its read has begun; some may come between the mark and the read.
  if (by_the_first + too_early >= kAlarms - 5) by_the_first = kAlarms;
  printf("%d reads, %d ended by the first alarm\n", kAlarms, by_the_first);
}

void masks() {
  sigset_t all, old, prof;
  sigfillset(&all);
  sigemptyset(&prof);
  sigaddset(&prof, SIGPROF);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  print_mask("before", old);
  print_current_mask("all");
  burn(20000000);
  pthread_t thread;
  pthread_create(&thread, nullptr, [](void*) -> void* { return print_current_mask("inherited"), nullptr; }, nullptr);
  pthread_join(thread, nullptr);
  sigprocmask(SIG_UNBLOCK, &prof, &old);
  print_mask("old", old);
  print_current_mask("without prof");
  printf("sigblock %d\n", sigblock(1 << (SIGPROF - 1)) < 0);
  sigrelse(SIGSEGV);
  print_current_mask("prof again");
  printf("wrong %d %d\n", pthread_sigmask(77, &all, nullptr), sigprocmask(77, &all, nullptr));
  sigprocmask(SIG_SETMASK, &old, nullptr);
  install(SIGPROF, count, 0);
  pthread_sigmask(SIG_BLOCK, &prof, nullptr);
  raise(SIGPROF);
  printf("while blocked %d\n", static_cast<int>(handled));
  pthread_sigmask(SIG_UNBLOCK, &prof, nullptr);
  printf("after %d\n", static_cast<int>(handled));
}

void in_handler(int) {
  print_current_mask("in handler");
  if (nested++ == 0) raise(SIGPROF);
  handled = handled + 1;
  print_current_mask("handler ends");
}

// The raise() within the handler is made again where the kernel has merged it with a tick of ours, as in raises().
void handler_masks() {
  for (int flags : {0, static_cast<int>(SA_NODEFER)}) {
    struct sigaction action{};
    action.sa_handler = in_handler;
    action.sa_flags = flags;
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGPROF, &action, nullptr);
    fflush(stdout);
    const int before = handled;
    for (int turn = 0; turn < 20 && handled != before + 2; turn++) {
      __fpurge(stdout);
      handled = before;
      nested = 0;
      raise(SIGPROF);
    }
    print_current_mask("after");
    printf("handled %d\n", static_cast<int>(handled));
  }
}

void reset_hand() {
  install(SIGPROF, count, static_cast<int>(SA_RESETHAND));
  raise(SIGPROF);
  printf("handled %d\n", static_cast<int>(handled));
  fflush(stdout);
  raise(SIGPROF);
}

// The kernel keeps one pending SIGPROF of a thread: a raise() at the very moment of a tick of ours merges with it.
void raises() {
  install(SIGPROF, count, SA_RESTART);
  for (int turn = 0; turn < 2000; turn++) {
    burn(20000);
    raise(SIGPROF);
  }
  printf("handled %s\n", handled >= 1980 && handled <= 2000 ? "all" : "too few or too many");
}

// Every SIGPROF that the handler sees is the interval timer's.
void interval_timer() {
  struct sigaction action{};
  action.sa_sigaction = count_info;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);
  itimerval time{{0, 10000}, {0, 10000}};
  setitimer(ITIMER_PROF, &time, nullptr);
  while (handled < 20) burn(1000000);
  time = {};
  setitimer(ITIMER_PROF, &time, nullptr);
  printf("strangers %d\n", static_cast<int>(handled) / 1000000);
}

void pending() {
  sigset_t prof, waiting;
  sigemptyset(&prof);
  sigaddset(&prof, SIGPROF);
  sigprocmask(SIG_BLOCK, &prof, nullptr);
  kill(getpid(), SIGPROF);
  burn(1000000);
  sigpending(&waiting);
  printf("pending %d", sigismember(&waiting, SIGPROF));
  int signal = 0;
  printf(" sigwait %d", sigwait(&prof, &signal));
  printf(" %d", signal);
  sigpending(&waiting);
  printf(" pending %d", sigismember(&waiting, SIGPROF));
  timespec shortly{0, 50000000};
  printf(" timed %d\n", sigtimedwait(&prof, nullptr, &shortly));
  fflush(stdout);
  kill(getpid(), SIGPROF);
  sigprocmask(SIG_UNBLOCK, &prof, nullptr);
  printf("not reached\n");
}

void ignored() {
  signal(SIGPROF, SIG_IGN);
  raise(SIGPROF);
  signal(SIGSEGV, SIG_IGN);
  raise(SIGSEGV);
  printf("alive\n");
  fflush(stdout);
  *reinterpret_cast<volatile int*>(8) = 1;  // a real fault is not ignored
}

// A program started now inherits the signals that this one ignores and blocks.
void inherited_by_exec(const char* self) {
  signal(SIGPROF, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  execl("/nonexistent/program", "x", nullptr);
  print_current_mask("failed exec");
  fflush(stdout);
  execl(self, self, "after_exec", nullptr);
}
void after_exec() {
  struct sigaction action{};
  sigaction(SIGPROF, nullptr, &action);
  printf("ignored %d\n", action.sa_handler == SIG_IGN);
  print_current_mask("new program");
}

void jump_out(int) { siglongjmp(back, 1); }
void segv_jumps() {
  install(SIGSEGV, jump_out, 0);
  install(SIGBUS, jump_out, 0);
  int caught = 0;
  for (volatile int turn = 0; turn < 3000; turn = turn + 1) {
    if (sigsetjmp(back, 1) == 0)
      *reinterpret_cast<volatile int*>(turn) = 1;
    else
      caught++;
    burn(3000);
  }
  print_current_mask("after faults");
  printf("caught %d\n", caught);
}

void tell_fault(int signal, siginfo_t* info, void*) {
  printf("signal %d code %d address %lx\n", signal, info->si_code, reinterpret_cast<unsigned long>(info->si_addr));
  siglongjmp(back, 1);
}
void fault_details() {
  struct sigaction action{};
  action.sa_sigaction = tell_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
  if (sigsetjmp(back, 1) == 0) *reinterpret_cast<volatile int*>(0x1234) = 1;
  if (sigsetjmp(back, 1) == 0) *reinterpret_cast<volatile int*>(0xdead000000000000) = 1;
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(page, 4096);
  page = mmap(reinterpret_cast<void*>(0x10000000000), 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (sigsetjmp(back, 1) == 0) *static_cast<volatile int*>(page) = 1;
  FILE* file = tmpfile();
  page = mmap(reinterpret_cast<void*>(0x10000100000), 4096, PROT_READ, MAP_SHARED | MAP_FIXED, fileno(file), 0);
  if (sigsetjmp(back, 1) == 0) sink = *static_cast<volatile int*>(page);
}

char alternate[65536];
void overflowed(int) {
  int here;
  bool on_alternate = reinterpret_cast<char*>(&here) >= alternate && reinterpret_cast<char*>(&here) < alternate + sizeof alternate;
  printf("on alternate stack %d\n", on_alternate);
  fflush(stdout);
  _exit(3);
}
int deeper(int depth) {
  volatile char room[4096];
  room[0] = static_cast<char>(depth);
  return deeper(depth + 1) + room[0];
}
void stack_overflow() {
  stack_t stack{alternate, 0, sizeof alternate};
  sigaltstack(&stack, nullptr);
  install(SIGSEGV, overflowed, SA_ONSTACK);
  printf("%d\n", deeper(0));
}

void blocked_fault() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  install(SIGSEGV, jump_out, 0);
  printf("now\n");
  fflush(stdout);
  *reinterpret_cast<volatile int*>(8) = 1;
}

struct Scene {
  const char* name;
  void (*play)();
};
constexpr Scene kScenes[] = {
    {"round_trip", round_trip},
    {"ended_calls", ended_calls},
    {"alarms_end_calls", alarms_end_calls},
    {"masks", masks},
    {"handler_masks", handler_masks},
    {"reset_hand", reset_hand},
    {"raises", raises},
    {"interval_timer", interval_timer},
    {"pending", pending},
    {"ignored", ignored},
    {"after_exec", after_exec},
    {"segv_jumps", segv_jumps},
    {"fault_details", fault_details},
    {"stack_overflow", stack_overflow},
    {"blocked_fault", blocked_fault},
    {"default_prof", [] { raise(SIGPROF); }},
    {"default_segv", [] { *reinterpret_cast<volatile int*>(8) = 1; }},
    {"default_bus", [] { raise(SIGBUS); }},
    {"sent_segv", [] { kill(getpid(), SIGSEGV); }},
};

}  // namespace

int main(int, char** arguments) {
  burn(5000000);
  if (!strcmp(arguments[1], "inherited_by_exec")) inherited_by_exec(arguments[0]);
  for (const Scene& scene : kScenes)
    if (!strcmp(arguments[1], scene.name)) scene.play();
  for (OwnTicks ticks; !ticks.came();) burn(100000);  // earlier work is in samples
  fflush(stdout);
  return 0;
}
