// Uses a known amount of the calling thread's CPU time, and tells when.
#define _GNU_SOURCE
#include <stdint.h>
#include <time.h>
#include <unistd.h>

struct stay {
  int64_t tid, begin_ns, end_ns, cpu_ns;  // begin and end: CLOCK_MONOTONIC
};

static int64_t now_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static volatile uint64_t sink;

__attribute__((noinline)) void spin_inner(int64_t until) {
  while (now_ns(CLOCK_THREAD_CPUTIME_ID) < until)
    for (int i = 0; i < 20000; i++) sink += (uint64_t)i * i;
}

void spin(int64_t ns, struct stay* stay) {
  stay->tid = gettid();
  stay->begin_ns = now_ns(CLOCK_MONOTONIC);
  int64_t begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
  spin_inner(begin + ns);
  stay->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
  stay->end_ns = now_ns(CLOCK_MONOTONIC);
}
