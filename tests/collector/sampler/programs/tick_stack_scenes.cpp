// A program must not be able to notice the stack that its ticks run on. Each scene prints its observations; alone it prints the same.
#include <asm/prctl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "ticks.hpp"

namespace {

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void spin(double seconds) {
  volatile double sink = 0;
  for (double end = cpu_seconds() + seconds; cpu_seconds() < end;)
    for (int at = 0; at < 1000; at++) sink = sink + at;
}

long raw(long number, long a = 0, long b = 0, long c = 0) {
  long result;
  asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return result;
}

void* on_thread(void* (*work)(void*)) {
  pthread_t thread;
  void* result = nullptr;
  if (pthread_create(&thread, nullptr, work, nullptr) != 0 || pthread_join(thread, &result) != 0) abort();
  return result;
}

char* mapped(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  return static_cast<char*>(memory);
}

void handle(int signal, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action{};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  sigaction(signal, &action, nullptr);
}

stack_t alternate(char* low, size_t bytes) {
  stack_t stack{};
  stack.ss_sp = low;
  stack.ss_size = bytes;
  if (sigaltstack(&stack, nullptr) != 0) perror("sigaltstack");
  return stack;
}

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
void* thread_keeps_data_below(void*) { return reinterpret_cast<void*>(keeps_data_below(100'000)); }

int below_the_stack_pointer() {
  printf("main: %ld words changed\n", keeps_data_below(100'000));
  printf("thread: %ld words changed\n", reinterpret_cast<long>(on_thread(thread_keeps_data_below)));
  return 0;
}

stack_t expected;
long handler_runs_on_it, handler_is_denied, handler_says_so, handlers;
void look_around(int, siginfo_t*, void*) {
  char here;
  stack_t before{}, other = expected;
  bool inside = static_cast<size_t>(&here - static_cast<char*>(expected.ss_sp)) < expected.ss_size;
  handler_runs_on_it += inside;
  handler_is_denied += sigaltstack(&other, nullptr) != 0 && errno == EPERM;
  sigaltstack(nullptr, &before);
  handler_says_so += before.ss_flags == SS_ONSTACK && before.ss_sp == expected.ss_sp && before.ss_size == expected.ss_size;
  handlers++;
  spin(0.02);
}

void* alternate_stack_of_its_own(void*) {
  stack_t before{};
  printf("at first: %d flags %d\n", sigaltstack(nullptr, &before), before.ss_flags);
  expected = alternate(mapped(65536), 65536);
  sigaltstack(nullptr, &before);
  printf("its own: %d flags %d\n", before.ss_sp == expected.ss_sp && before.ss_size == expected.ss_size, before.ss_flags);
  handle(SIGUSR1, look_around, SA_ONSTACK);
  handler_runs_on_it = handler_is_denied = handler_says_so = handlers = 0;
  for (int at = 0; at < 10; at++) {
    pthread_kill(pthread_self(), SIGUSR1);
    spin(0.01);
  }
  printf("of %ld handlers: %ld on it, %ld denied a change, %ld told\n", handlers, handler_runs_on_it, handler_is_denied, handler_says_so);
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  printf("taken away: %d", sigaltstack(&none, &before));
  printf(" it was: %d flags %d", before.ss_sp == expected.ss_sp, before.ss_flags);
  sigaltstack(nullptr, &before);
  printf(" now: %p %zu flags %d\n", before.ss_sp, before.ss_size, before.ss_flags);
  return nullptr;
}
int program_alternate_stack() {
  alternate_stack_of_its_own(nullptr);
  on_thread(alternate_stack_of_its_own);
  return 0;
}

int errors_of_sigaltstack() {
  auto ask = [](stack_t stack) { return sigaltstack(&stack, nullptr) == 0 ? 0 : errno; };
  char* low = mapped(65536);
  stack_t stack{};
  stack.ss_sp = low;
  stack.ss_size = 1000;
  printf("too small: %d\n", ask(stack));
  stack.ss_size = 65536;
  stack.ss_flags = 64;
  printf("unknown flag: %d\n", ask(stack));
  stack.ss_flags = SS_ONSTACK;
  printf("SS_ONSTACK: %d\n", ask(stack));
  printf("bad pointers: %d %d\n", sigaltstack(reinterpret_cast<stack_t*>(8), nullptr) == 0 ? 0 : errno,
         sigaltstack(nullptr, reinterpret_cast<stack_t*>(8)) == 0 ? 0 : errno);
  stack_t before{};
  printf("it stays: %d flags %d\n", sigaltstack(nullptr, &before) == 0 && before.ss_sp == low, before.ss_flags);
  return 0;
}

// A handler that asks for an alternate stack where there is none runs on the thread's own, right below the interrupted frame.
uint64_t distance, floating_point_kept, resumed_elsewhere;
void measure(int, siginfo_t* info, void* context) {
  char here;
  auto* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  distance = static_cast<uint64_t>(registers[REG_RSP]) - reinterpret_cast<uint64_t>(&here);
  if (info->si_signo != SIGUSR1) abort();
  asm volatile("vpxor %%ymm0, %%ymm0, %%ymm0; vpxor %%ymm15, %%ymm15, %%ymm15" ::: "xmm0", "xmm15");
  if (registers[REG_R12] == 0x1234) registers[REG_RIP] += 2;  // past the endless loop below
}
[[gnu::noinline]] void interrupted_in_a_loop() {
  alignas(32) unsigned char in[32], out[32];
  memset(in, 0x5a, sizeof in);
  asm volatile(
      "vmovdqa %[in], %%ymm15\n"
      "mov $0x1234, %%r12\n"
      "mov %[call], %%eax\n"
      "syscall\n"
      "1: jmp 1b\n"
      "vmovdqa %%ymm15, %[out]\n"
      : [out] "=m"(out)
      : [in] "m"(in), [call] "i"(SYS_tgkill), "D"(getpid()), "S"(static_cast<long>(syscall(SYS_gettid))), "d"(SIGUSR1)
      : "rax", "rcx", "r11", "r12", "xmm15", "memory");
  floating_point_kept += memcmp(in, out, sizeof in) == 0;
  resumed_elsewhere++;
}
void* measure_in_thread(void*) {
  handle(SIGUSR1, measure, SA_ONSTACK);
  for (int at = 0; at < 5; at++) {
    interrupted_in_a_loop();
    spin(0.01);
  }
  printf("near: %d, vector registers kept: %ld, resumed elsewhere: %ld\n", distance > 128 && distance < 16384, floating_point_kept,
         resumed_elsewhere);
  return nullptr;
}
int handler_without_alternate_stack() {
  if (!__builtin_cpu_supports("avx")) return puts("no AVX"), 0;
  measure_in_thread(nullptr);
  on_thread(measure_in_thread);
  return 0;
}

sigjmp_buf recovery;
void recover(int, siginfo_t*, void*) { siglongjmp(recovery, 1); }
[[gnu::noinline]] long overflow_the_stack(long depth) {
  volatile char room[512];
  room[0] = static_cast<char>(depth);
  return depth ? overflow_the_stack(depth - 1) + room[0] : 0;
}
void* recover_often(void* low) {
  alternate(static_cast<char*>(low), 65536);
  handle(SIGSEGV, recover, SA_ONSTACK);
  volatile int recovered = 0;
  for (int at = 0; at < 20; at++) {
    if (sigsetjmp(recovery, 1))
      recovered = recovered + 1;
    else
      overflow_the_stack(1L << 40);
    spin(0.005);
  }
  printf("%d overflows survived\n", recovered);
  return nullptr;
}
// The alternate stack of the thread lies above the thread's own: the jump out of it goes down.
void* recover_in_thread(void*) {
  char here;
  char* low = reinterpret_cast<char*>((reinterpret_cast<uint64_t>(&here) + (64 << 20)) & ~4095ull);
  for (; mmap(low, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != low; low += 16 << 20) {
  }
  return recover_often(low);
}
int overflow_recovery() {
  rlimit limit{1 << 20, RLIM_INFINITY};
  setrlimit(RLIMIT_STACK, &limit);
  recover_often(mapped(65536));
  on_thread(recover_in_thread);
  return 0;
}

// Coroutines made by the alternate stack: the frames that the handler left on it go on after the handler has returned.
sigjmp_buf coroutine, creator;
volatile int coroutine_steps;
void enter_coroutine(int, siginfo_t*, void*) {
  volatile uint64_t canary[256];
  for (uint64_t at = 0; at < 256; at++) canary[at] = at * 0x9E3779B97F4A7C15u;
  if (sigsetjmp(coroutine, 0) == 0) return;
  for (uint64_t at = 0; at < 256; at++)
    if (canary[at] != at * 0x9E3779B97F4A7C15u) abort();
  coroutine_steps = coroutine_steps + 1;
  siglongjmp(creator, 1);
}
int coroutines_by_alternate_stack() {
  char* low = mapped(65536);
  handle(SIGUSR2, enter_coroutine, SA_ONSTACK);
  for (int at = 0; at < 30; at++) {
    alternate(low, 65536);
    raise(SIGUSR2);
    spin(0.01);  // the kernel would take this stack for another signal
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    if (sigsetjmp(creator, 0) == 0) siglongjmp(coroutine, 1);
  }
  printf("%d steps\n", coroutine_steps);
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
  for (;;) {
    double sum = 0;
    for (int at = 0; at < 100'000; at++) sum += at * 0.5;
    if (green_sum[number] != 0 && green_sum[number] != sum) abort();
    green_sum[number] = sum;
    if (switches >= 200 && !ended.exchange(true)) _exit(puts("switched") < 0);
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

// Its ticks need more stack than it has: they must not touch it, or the memory below it.
void* tiny_alternate_stack(void*) {
  char* memory = mapped(65536);
  memset(memory, 0x5a, 65536);
  alternate(memory + 32768, 2048);
  handle(SIGUSR1, look_around, SA_ONSTACK);
  spin(0.3);
  size_t changed = 0;
  for (size_t at = 0; at < 65536; at++) changed += memory[at] != 0x5a;
  printf("%zu bytes changed\n", changed);
  return nullptr;
}
int tiny_stacks() {
  tiny_alternate_stack(nullptr);
  on_thread(tiny_alternate_stack);
  return 0;
}

// A destructor of thread-specific data may take the thread's alternate stack away after us.
void free_alternate(void* low) {
  stack_t none{}, before{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, &before);
  printf("%s\n", before.ss_sp == low && before.ss_size == 65536 ? "given back" : "another");
  munmap(low, 65536);
}
pthread_key_t stack_key;
void* with_stack_key(void*) {
  char* low = mapped(65536);
  alternate(low, 65536);
  pthread_setspecific(stack_key, low);
  spin(0.02);
  return nullptr;
}
int end_of_thread() {
  pthread_key_create(&stack_key, free_alternate);
  for (int at = 0; at < 5; at++) on_thread(with_stack_key);
  return 0;
}

// A thread by clone() alone, without thread-local memory (fs = 0) or with its creator's. First it waits, so that it can be met.
char clone_stack[1 << 16] __attribute__((aligned(16)));
volatile int clone_done;
int bare_pipe[2];
int cloned_waits(void* without) {
  char byte;
  if (without) raw(SYS_arch_prctl, ARCH_SET_FS, 0);
  raw(SYS_read, bare_pipe[0], reinterpret_cast<long>(&byte), 1);
  volatile double sink = 0;
  for (long at = 0; at < 150'000'000; at++) sink = sink + 1;
  clone_done = 1;
  raw(SYS_exit);
  return 0;
}
int bare_thread(bool without) {
  if (pipe(bare_pipe) != 0) return 1;
  errno = 77;
  constexpr int kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_SYSVSEM | CLONE_THREAD;
  if (clone(cloned_waits, clone_stack + sizeof clone_stack, kFlags, without ? clone_stack : nullptr) < 0) return 1;
  for (int at = 0; at < 50 && timers() < 2; at++) spin(0.05);  // ticks here find it
  if (write(bare_pipe[1], "x", 1) != 1) return 1;
  long changed = 0;
  while (!clone_done)
    if (errno != 77) changed++, errno = 77;
  printf("errno changed %ld times\n", changed);
  return 0;
}
int bare_thread_without_memory() { return bare_thread(true); }
int bare_thread_with_anothers_memory() { return bare_thread(false); }

void count_on() {
  volatile double sink = 0;
  for (long at = 0; at < 120'000'000; at++) sink = sink + 1;
}
[[noreturn]] void leave(const char* text) {
  raw(SYS_write, 1, reinterpret_cast<long>(text), static_cast<long>(strlen(text)));
  raw(SYS_exit, 0);
  abort();
}

int clock_forbidden() {
  spin(0.05);
  prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
  count_on();
  prctl(PR_SET_TSC, PR_TSC_ENABLE);
  spin(0.1);
  return puts("counted") < 0;
}
int strict_by_instruction() {
  spin(0.05);
  if (raw(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 3;
  count_on();
  leave("counted\n");
}
int strict_by_libcs_syscall() {
  spin(0.05);
  if (syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 3;
  count_on();
  leave("counted\n");
}

// read, write, exit, exit_group, rt_sigreturn; all else as `otherwise` says.
int filtered(uint32_t otherwise) {
  spin(0.05);
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, otherwise),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{static_cast<unsigned short>(sizeof filter / sizeof *filter), filter};
  if (raw(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1) || raw(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, reinterpret_cast<long>(&program))) return 3;
  count_on();
  count_on();
  leave("counted\n");
}
int filter_that_traps() { return filtered(SECCOMP_RET_TRAP); }
int filter_that_fails() { return filtered(SECCOMP_RET_ERRNO | EPERM); }

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
