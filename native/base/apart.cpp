#include "base/apart.hpp"

#include "base/sys.hpp"

#include <sched.h>
#include <sys/wait.h>
#include <csignal>

namespace aiflame {

namespace {

// Like vfork(): on this stack, below the part in use, while the caller stands still. The child sends no signal at its end, so only a wait for
// clones would find it.
long make_child(void (*run)(void*) noexcept, void* argument) noexcept {
  register void (*function)(void*) noexcept asm("r12") = run;
  register void* passed asm("r13") = argument;
  register long descriptor asm("r10") = 0;
  register long locals asm("r8") = 0;
  long child;
  asm volatile(
      "syscall\n"
      "test %%rax, %%rax\n"
      "jnz 1f\n"
      "sub $256, %%rsp\n"
      "and $-64, %%rsp\n"
      "mov %%r13, %%rdi\n"
      "call *%%r12\n"
      "mov %[exit], %%eax\n"
      "xor %%edi, %%edi\n"
      "syscall\n"
      "1:\n"
      : "=a"(child)
      : "a"(SYS_clone), "D"(CLONE_VM | CLONE_VFORK), "S"(0), "d"(0), "r"(descriptor), "r"(locals), "r"(function), "r"(passed), [exit] "i"(SYS_exit)
      : "rcx", "r11", "memory", "cc");
  return child;
}

struct Work {
  void (*run)(void*) noexcept;
  void* argument;
};

void make_room_and_run(void* pointer) noexcept {
  constexpr int kRoom = 8;
  auto* work = static_cast<Work*>(pointer);
  for (int descriptor = 0; descriptor < kRoom; descriptor++) sys::call(SYS_close, descriptor);
  work->run(work->argument);
}

}  // namespace

bool run_apart(void (*run)(void*) noexcept, void* argument) noexcept {
  // Signals are blocked: a handler must not run in two processes on one stack.
  uint64_t all = ~0ull, before = 0;
  sys::call(SYS_rt_sigprocmask, SIG_BLOCK, reinterpret_cast<long>(&all), reinterpret_cast<long>(&before), sizeof all);
  Work work{run, argument};
  long child = make_child(make_room_and_run, &work);
  if (!sys::failed(child)) sys::call(SYS_wait4, child, 0, __WALL, 0);
  sys::call(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&before), 0, sizeof before);
  return !sys::failed(child);
}

}  // namespace aiflame
