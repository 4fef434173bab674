// Forbids rdtsc, and works: on the thread's own stack, or for long in a handler of SIGSEGV, which the kernel blocks meanwhile.
#include <setjmp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <cstring>

#include "is_recorded.hpp"

namespace {

sigjmp_buf back;

void spin(long rounds) {
  if (!is_recorded()) return;
  for (volatile long i = 0; i < rounds; i = i + 1) {
  }
}

void on_fault(int) {
  spin(150'000'000);
  siglongjmp(back, 1);
}

}  // namespace

int main(int count, char** words) {
  prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
  bool in_handler = count > 1 && strcmp(words[1], "works") != 0;
  if (!in_handler) {
    spin(300'000'000);
  } else {
    signal(SIGSEGV, on_fault);
    for (volatile int at = 0; at < 2; at = at + 1)
      if (sigsetjmp(back, 1) == 0) *reinterpret_cast<volatile int*>(8) = 1;
  }
  prctl(PR_SET_TSC, PR_TSC_ENABLE);
  return 3;
}
