// A program's own alternate stacks, of the main thread and of others: asked for, used, overflowed, left, taken away.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <cerrno>
#include <csetjmp>
#include <cstdint>
#include <cstring>

#include "tick_stack_scenes.hpp"

namespace {

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

}  // namespace

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

namespace {

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

}  // namespace

int handler_without_alternate_stack() {
  if (!__builtin_cpu_supports("avx")) return puts("no AVX"), 0;
  measure_in_thread(nullptr);
  on_thread(measure_in_thread);
  return 0;
}

namespace {

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

}  // namespace

int overflow_recovery() {
  rlimit limit{1 << 20, RLIM_INFINITY};
  setrlimit(RLIMIT_STACK, &limit);
  recover_often(mapped(65536));
  on_thread(recover_in_thread);
  return 0;
}

namespace {

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

}  // namespace

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

namespace {

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

}  // namespace

int tiny_stacks() {
  tiny_alternate_stack(nullptr);
  on_thread(tiny_alternate_stack);
  return 0;
}

namespace {

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

}  // namespace

int end_of_thread() {
  pthread_key_create(&stack_key, free_alternate);
  for (int at = 0; at < 5; at++) on_thread(with_stack_key);
  return 0;
}
