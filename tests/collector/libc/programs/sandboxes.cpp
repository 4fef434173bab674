// Enters a sandbox after half a second of CPU time, works on in it, and says so. One argument: the way in.
//
//   strict    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT): only read, write, exit and sigreturn remain
//   filter    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER) with a filter that kills for every system call but the program's own
//   syscall   the same by syscall(SYS_seccomp), as libseccomp does it
//   probe     asks whether the kernel has filters, as libseccomp does it, and enters none
//   arguments checks that six arguments, a result and an error come through syscall() and prctl() as they were
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iterator>

#include "is_recorded.hpp"

namespace {

volatile double work = 1;

void spin(double seconds) {
  if (!is_recorded()) return;
  timespec begin{}, now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  do {
    for (int i = 0; i < 100'000; i++) work = work * 1.0000001;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while (static_cast<double>(now.tv_sec - begin.tv_sec) + static_cast<double>(now.tv_nsec - begin.tv_nsec) * 1e-9 < seconds);
}

sock_filter program[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 4, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};

bool arguments() {
  char name[16] = {}, before[16] = {};
  prctl(PR_GET_NAME, before, 0, 0, 0);
  bool right = prctl(PR_SET_NAME, "renamed", 0, 0, 0) == 0 && prctl(PR_GET_NAME, name, 0, 0, 0) == 0 && !strcmp(name, "renamed");
  FILE* file = tmpfile();
  for (int page = 0; page < 3; page++)
    for (int at = 0; at < 4096; at++) fputc('0' + page, file);
  fflush(file);
  // The sixth argument is the offset.
  auto* mapped = reinterpret_cast<char*>(
      syscall(SYS_mmap, 0L, 4096L, static_cast<long>(PROT_READ), static_cast<long>(MAP_PRIVATE), static_cast<long>(fileno(file)), 8192L));
  right = right && mapped != MAP_FAILED && mapped[0] == '2';
  errno = 0;
  right = right && syscall(SYS_close, -1L) == -1 && errno == EBADF;
  errno = 0;
  right = right && prctl(-1, 0, 0, 0, 0) == -1 && errno == EINVAL;
  errno = 77;
  return right && syscall(SYS_getpid) == getpid() && errno == 77;
}

}  // namespace

int main(int, char** argument) {
  const char* way = argument[1];
  if (!strcmp(way, "arguments")) return puts(arguments() ? "whole" : "changed"), 0;
  spin(0.5);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  long result = 0;
  if (!strcmp(way, "strict")) result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
  if (!strcmp(way, "filter")) result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
  if (!strcmp(way, "syscall")) result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
  if (!strcmp(way, "probe")) result = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, nullptr, 0, 0) == -1 && errno == EFAULT ? 0 : 1;
  if (result != 0) return 1;
  for (int i = 0, rounds = is_recorded() ? 60'000'000 : 1; i < rounds; i++) work = work * 1.0000001;
  if (write(STDOUT_FILENO, "done\n", 5) != 5) return 2;
  if (!strcmp(way, "strict")) syscall(SYS_exit, 0L);
  _exit(0);
}
