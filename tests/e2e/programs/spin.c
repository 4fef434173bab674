// Uses a known amount of the calling thread's CPU time.
#define _GNU_SOURCE
#include <stdint.h>
#include <time.h>

static int64_t cpu_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static volatile uint64_t sink;

__attribute__((noinline)) void spin_inner(int64_t until) {
  while (cpu_ns() < until)
    for (int i = 0; i < 20000; i++) sink += (uint64_t)i * i;
}

// Returns the CPU time that it really took.
int64_t spin(int64_t ns) {
  int64_t begin = cpu_ns();
  spin_inner(begin + ns);
  return cpu_ns() - begin;
}
