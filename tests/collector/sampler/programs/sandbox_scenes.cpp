// A program that forbids itself the clock or most system calls: its ticks must make none that it may not.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "tick_stack_scenes.hpp"
#include "ticks.hpp"

namespace {

void work_until_sampled() {
  if (!is_recorded()) return;
  for (OwnTicks ticks; !ticks.came();) spin(0.01);
}

void count_on() {
  volatile double sink = 0;
  for (long at = 0, rounds = is_recorded() ? 120'000'000 : 1; at < rounds; at++) sink = sink + 1;
}
[[noreturn]] void leave(const char* text) {
  raw(SYS_write, 1, reinterpret_cast<long>(text), static_cast<long>(strlen(text)));
  raw(SYS_exit, 0);
  abort();
}

}  // namespace

int clock_forbidden() {
  work_until_sampled();
  prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
  count_on();
  prctl(PR_SET_TSC, PR_TSC_ENABLE);
  spin(0.1);
  return puts("counted") < 0;
}

int strict_by_instruction() {
  work_until_sampled();
  if (raw(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 3;
  count_on();
  leave("counted\n");
}

int strict_by_libcs_syscall() {
  work_until_sampled();
  if (syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 3;
  count_on();
  leave("counted\n");
}

namespace {

// read, write, exit, exit_group, rt_sigreturn; all else as `otherwise` says.
int filtered(uint32_t otherwise) {
  work_until_sampled();
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

}  // namespace

int filter_that_traps() { return filtered(SECCOMP_RET_TRAP); }

int filter_that_fails() { return filtered(SECCOMP_RET_ERRNO | EPERM); }
