// Runs a scene one instruction at a time and unwinds at every single one: the frames outside the scene never change, so each
// stack has to end in them. Prints how many instructions there were, at how many the stack was whole, and exactly so; and of those that
// return by a register (libgcc's, when an exception is caught), at how many the caller was where the register says.
//
//   unwind_stepped SCENE
#include "innermost_first.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>

using namespace aiflame;

namespace {

constexpr int kRoom = 256;
NativeUnwinder* unwinder;
uint64_t stack_high;
NativeFrame frames[kRoom], outside[kRoom];
size_t outside_count;
uint64_t steps, whole, exact, register_returns, register_found;
volatile sig_atomic_t stepping;

void on_step(int, siginfo_t*, void* raw) {
  auto* context = static_cast<ucontext_t*>(raw);
  greg_t* all = context->uc_mcontext.gregs;
  if (!stepping) {
    all[REG_EFL] &= ~0x100;
    return;
  }
  Registers from{static_cast<uint64_t>(all[REG_RIP]), static_cast<uint64_t>(all[REG_RSP]), static_cast<uint64_t>(all[REG_RBP]), all, true};
  Ending ending;
  size_t count = innermost_first(*unwinder, from, stack_high, frames, kRoom, &ending);
  // The innermost of the outside frames is the one that steps: its pc moves, all else stays.
  bool right = count >= outside_count;
  for (size_t at = 1; right && at < outside_count; at++) {
    const NativeFrame &now = frames[count - at], &then = outside[outside_count - at];
    right = now.pc == then.pc && now.sp == then.sp && now.cfa == then.cfa;
  }
  steps++;
  whole += right;
  exact += right && ending == Ending::OUTERMOST;
  // pop %rcx, and now jmp *%rcx.
  auto* code = reinterpret_cast<const uint8_t*>(from.pc);
  if (code[-1] == 0x59 && code[0] == 0xff && code[1] == 0xe1) {
    register_returns++;
    register_found += count > 1 && frames[1].pc == static_cast<uint64_t>(all[REG_RCX]) && frames[1].sp == from.sp;
  }
  if (!right && getenv("UNWIND_VERBOSE")) fprintf(stderr, "at %#lx: %zu frames, ending %d\n", from.pc, count, static_cast<int>(ending));
}

volatile double sink;

__attribute__((noinline)) double leaf(double x) { return x * 1.5 + 1; }

__attribute__((noinline)) double calls(int depth) {
  char room[64];
  memset(room, depth, sizeof room);
  sink = room[depth & 7];
  return depth ? calls(depth - 1) + leaf(depth) : leaf(1);
}

// Realigns its stack, so that its CFA is read from memory.
__attribute__((noinline)) double realigned(int size) {
  alignas(128) volatile char aligned[256];
  auto* variable = static_cast<volatile char*>(__builtin_alloca(static_cast<size_t>(size)));
  aligned[0] = variable[0] = 1;
  return leaf(aligned[0] + variable[0]);
}

struct Noisy {
  ~Noisy() { sink = leaf(2); }
};

__attribute__((noinline)) void throws(int depth) {
  Noisy noisy;
  if (depth == 0) throw std::runtime_error("thrown");
  throws(depth - 1);
  sink = depth;
}

int compare_ints(const void* left, const void* right) { return *static_cast<const int*>(left) - *static_cast<const int*>(right); }

void on_user_signal(int) { sink = leaf(3); }

// As libgcc's functions end when an exception is caught.
extern "C" void returns_by_register();
asm(R"(
  .text
  .type returns_by_register, @function
returns_by_register:
  .cfi_startproc
  endbr64
  pop %rcx
  .cfi_adjust_cfa_offset -8
  .cfi_register 16, 2
  jmp *%rcx
  .cfi_endproc
  .size returns_by_register, .-returns_by_register
)");

void run(const std::string& scene) {
  if (scene == "calls") calls(20);
  if (scene == "realigned") realigned(100);
  if (scene == "exception") {
    try {
      throws(5);
    } catch (const std::exception& error) {
      sink = leaf(error.what()[0]);
    }
  }
  if (scene == "libc") {
    int numbers[] = {5, 3, 9, 1, 7, 2};
    qsort(numbers, 6, sizeof numbers[0], compare_ints);
    char text[200];
    snprintf(text, sizeof text, "%s %d %g", "text", numbers[0], leaf(0.1));
    std::string grown(text);
    for (int at = 0; at < 5; at++) grown += grown;
    sink = static_cast<double>(grown.size());
  }
  if (scene == "vdso") {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    sink = static_cast<double>(now.tv_nsec);
  }
  if (scene == "binding") sink = static_cast<double>(strtoull("12", nullptr, 10) + strverscmp("a", "b"));  // first calls, bound lazily
  if (scene == "register")
    for (int at = 0; at < 100; at++) returns_by_register();
  if (scene == "signal") raise(SIGUSR1);
}

// The frame that steps: every stack must end in its caller and the frames outside of it.
__attribute__((noinline)) void step_through(const std::string& scene) {
  Ending ending;
  outside_count = innermost_first(*unwinder, here(), stack_high, outside, kRoom, &ending);
  stepping = 1;
  asm volatile("pushf\n orq $0x100, (%%rsp)\n popf" ::: "memory", "cc");
  run(scene);
  stepping = 0;
  asm volatile("nop");
}

}  // namespace

int main(int, char** arguments) {
  pthread_attr_t attributes;
  void* low;
  size_t size;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &low, &size);
  stack_high = reinterpret_cast<uint64_t>(low) + size;
  unwinder = NativeUnwinder::create();
  struct sigaction action{};
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  signal(SIGUSR1, on_user_signal);
  step_through(arguments[1]);
  printf("{\"steps\": %lu, \"whole\": %lu, \"exact\": %lu, \"register_returns\": %lu, \"register_found\": %lu}\n", steps, whole, exact,
         register_returns, register_found);
  return 0;
}
