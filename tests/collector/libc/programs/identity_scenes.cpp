// A program that becomes another user, or goes below another root folder, and works on: `identity_scenes CHANGES [COMMAND …]`.
// CHANGES: one letter each, in order: u setuid, e seteuid there and back, r chroot("root"), R the same by libc's syscall(), n unshare(CLONE_NEWNS),
// p /proc mounted below "root", c all descriptors closed, f the rest in a forked child, x COMMAND is executed in the end.
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "is_recorded.hpp"

namespace {

constexpr uid_t kNobody = 65534;

// Stacks of many shapes, so that tables grow.
template <int kDepth>
__attribute__((noinline)) long work(long way) {
  volatile long sum = 0;
  if constexpr (kDepth > 0)
    sum = way & 1 ? work<kDepth - 1>(way >> 1) + 1 : work<kDepth - 1>(way >> 1) + 2;
  else
    for (int at = 0; at < 200'000; at++) sum = sum + at;
  return sum;
}

void spin(double seconds) {
  timespec now;
  double end = 0;
  long way = 0;
  do {
    work<20>(way += 977);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    double at = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
    if (end == 0) end = at + seconds;
    if (at >= end || !is_recorded()) return;
  } while (true);
}

void check(bool good, const char* what) {
  if (good) return;
  perror(what);
  exit(3);
}

}  // namespace

int main(int, char** arguments) {
  spin(0.1);
  for (const char* change = arguments[1]; *change; change++) switch (*change) {
      case 'u':
        check(setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0, "setuid");
        break;
      case 'e':
        check(seteuid(kNobody) == 0, "seteuid");
        spin(0.2);
        check(seteuid(0) == 0, "seteuid");
        break;
      case 'r':
        check(chroot("root") == 0 && chdir("/") == 0, "chroot");
        break;
      case 'R':
        check(syscall(SYS_chroot, "root") == 0 && chdir("/") == 0, "chroot");
        break;
      case 'n':
        check(unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "unshare");
        break;
      case 'p':
        check((mkdir("root/proc", 0755) == 0 || access("root/proc", F_OK) == 0) && mount("proc", "root/proc", "proc", 0, nullptr) == 0, "mount");
        break;
      case 'c':
        for (int fd = 3; fd < 1024; fd++) close(fd);
        break;
      case 'f':
        if (pid_t child = fork()) {
          int status = 0;
          waitpid(child, &status, 0);
          _exit(WEXITSTATUS(status));
        }
        break;
      case 'x':
        spin(0.3);
        execv(arguments[2], arguments + 2);
        perror("execv");
        return 4;
    }
  spin(0.3);
  printf("user %u\n", geteuid());
  fflush(stdout);
  return 0;
}
