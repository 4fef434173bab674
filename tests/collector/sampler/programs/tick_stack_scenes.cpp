// A program must not be able to notice the stack that its ticks run on. Each scene prints its observations; alone it prints the same.
#include <asm/prctl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tick_stack_scenes.hpp"
#include "ticks.hpp"

namespace {

// Words from 128 bytes below the stack pointer to 64 KB below it, as oneDNN's kernels keep some. 0 when all stay for many ticks.
[[gnu::noinline]] long keeps_data_below(long rounds) {
  long changed;
  asm volatile(
      "1:\n"
      "mov $-136, %%rax\n"
      "2: mov %%rax, (%%rsp,%%rax)\n"
      "sub $8, %%rax\n"
      "cmp $-65536, %%rax\n"
      "jge 2b\n"
      "mov $-136, %%rax\n"
      "xor %0, %0\n"
      "3: cmp %%rax, (%%rsp,%%rax)\n"
      "je 4f\n"
      "inc %0\n"
      "4: sub $8, %%rax\n"
      "cmp $-65536, %%rax\n"
      "jge 3b\n"
      "test %0, %0\n"
      "jnz 5f\n"
      "dec %1\n"
      "jnz 1b\n"
      "5:\n"
      : "=&r"(changed), "+r"(rounds)
      :
      : "rax", "memory", "cc");
  return changed;
}
long below_rounds() { return is_recorded() ? 100'000 : 1; }
void* thread_keeps_data_below(void*) { return reinterpret_cast<void*>(keeps_data_below(below_rounds())); }

int below_the_stack_pointer() {
  printf("main: %ld words changed\n", keeps_data_below(below_rounds()));
  printf("thread: %ld words changed\n", reinterpret_cast<long>(on_thread(thread_keeps_data_below)));
  return 0;
}

// Threads of the program's own that are switched by a timer, out of the signal's handler.
ucontext_t green[2];
volatile int switches, running;
void switch_green(int, siginfo_t*, void*) {
  int from = running;
  running = 1 - from;
  switches = switches + 1;
  swapcontext(&green[from], &green[running]);
}
volatile double green_sum[2];
std::atomic<bool> ended{false};
void green_work(int number) {
  const int enough = is_recorded() ? 200 : 20;
  for (;;) {
    double sum = 0;
    for (int at = 0; at < 100'000; at++) sum += at * 0.5;
    if (green_sum[number] != 0 && green_sum[number] != sum) abort();
    green_sum[number] = sum;
    if (switches >= enough && !ended.exchange(true)) _exit(puts("switched") < 0);
  }
}
int green_threads(int which, int flags) {
  handle(which == ITIMER_PROF ? SIGPROF : SIGALRM, switch_green, flags | SA_RESTART);
  getcontext(&green[1]);
  green[1].uc_stack.ss_sp = mapped(1 << 18);
  green[1].uc_stack.ss_size = 1 << 18;
  makecontext(&green[1], reinterpret_cast<void (*)()>(green_work), 1, 1);
  itimerval every{{0, 3000}, {0, 3000}};
  setitimer(static_cast<__itimer_which_t>(which), &every, nullptr);
  green_work(0);
  return 1;
}
int green_threads_by_alarm() { return green_threads(ITIMER_REAL, SA_ONSTACK); }
int green_threads_by_profiling() { return green_threads(ITIMER_PROF, 0); }

// A thread by clone() alone, without thread-local memory (fs = 0) or with its creator's. First it waits, so that it can be met.
char clone_stack[1 << 16] __attribute__((aligned(16)));
volatile int clone_done;
long bare_rounds;
int bare_pipe[2];
int cloned_waits(void* without) {
  char byte;
  if (without) raw(SYS_arch_prctl, ARCH_SET_FS, 0);
  raw(SYS_read, bare_pipe[0], reinterpret_cast<long>(&byte), 1);
  volatile double sink = 0;
  for (long at = 0; at < bare_rounds; at++) sink = sink + 1;
  clone_done = 1;
  raw(SYS_exit);
  return 0;
}
int bare_thread(bool without) {
  if (pipe(bare_pipe) != 0) return 1;
  bare_rounds = is_recorded() ? 100'000'000 : 1;
  errno = 77;
  constexpr int kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_SYSVSEM | CLONE_THREAD;
  if (clone(cloned_waits, clone_stack + sizeof clone_stack, kFlags, without ? clone_stack : nullptr) < 0) return 1;
  for (int at = 0, most = is_recorded() ? 400 : 1; at < most && timers() < 2; at++) spin(0.05);  // ticks here find it
  if (write(bare_pipe[1], "x", 1) != 1) return 1;
  long changed = 0;
  while (!clone_done)
    if (errno != 77) changed++, errno = 77;
  printf("errno changed %ld times\n", changed);
  return 0;
}
int bare_thread_without_memory() { return bare_thread(true); }
int bare_thread_with_anothers_memory() { return bare_thread(false); }

}  // namespace

int main(int count, char** arguments) {
  setvbuf(stdout, nullptr, _IONBF, 0);
  const struct {
    const char* name;
    int (*run)();
  } scenes[] = {
      {"below_the_stack_pointer", below_the_stack_pointer},
      {"program_alternate_stack", program_alternate_stack},
      {"errors_of_sigaltstack", errors_of_sigaltstack},
      {"handler_without_alternate_stack", handler_without_alternate_stack},
      {"overflow_recovery", overflow_recovery},
      {"coroutines_by_alternate_stack", coroutines_by_alternate_stack},
      {"green_threads_by_alarm", green_threads_by_alarm},
      {"green_threads_by_profiling", green_threads_by_profiling},
      {"tiny_stacks", tiny_stacks},
      {"end_of_thread", end_of_thread},
      {"bare_thread_without_memory", bare_thread_without_memory},
      {"bare_thread_with_anothers_memory", bare_thread_with_anothers_memory},
      {"clock_forbidden", clock_forbidden},
      {"strict_by_instruction", strict_by_instruction},
      {"strict_by_libcs_syscall", strict_by_libcs_syscall},
      {"filter_that_traps", filter_that_traps},
      {"filter_that_fails", filter_that_fails},
  };
  for (const auto& scene : scenes)
    if (count == 2 && strcmp(scene.name, arguments[1]) == 0) return scene.run();
  return 1;
}
