/* Functions of HIP and of Level Zero that do nothing, for calls.py: with -DSTUB the runtime, else calls_stood_in FUNCTION BATCHES, which
   tells what calls_mpi_client does. */
#ifdef STUB
int hipSetDevice(int device) { return device; }
unsigned zeKernelSetIndirectAccess(void* kernel, unsigned flags) { return kernel == 0 && flags; }
#else
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int hipSetDevice(int);
unsigned zeKernelSetIndirectAccess(void*, unsigned);

enum { TEN = 10 };

static double ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int ascending(const void* left, const void* right) {
  double a = *(const double*)left, b = *(const double*)right;
  return (a > b) - (a < b);
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  int hip = strcmp(arguments[1], "hipSetDevice") == 0, batches = atoi(arguments[2]);
  double* took = calloc((size_t)batches, sizeof *took);
  hip ? hipSetDevice(0) : (int)zeKernelSetIndirectAccess(took, 0);
  double begin = ns(CLOCK_THREAD_CPUTIME_ID);
  for (int batch = 0; batch < batches; batch++) {
    double batch_begin = ns(CLOCK_MONOTONIC);
    if (hip)
      for (int call = 0; call < TEN; call++) hipSetDevice(0);
    else
      for (int call = 0; call < TEN; call++) zeKernelSetIndirectAccess(took, 0);
    took[batch] = (ns(CLOCK_MONOTONIC) - batch_begin) / TEN;
  }
  double mean = (ns(CLOCK_THREAD_CPUTIME_ID) - begin) / TEN / batches;
  double clock_begin = ns(CLOCK_THREAD_CPUTIME_ID);
  for (int batch = 0; batch < batches; batch++) ns(CLOCK_MONOTONIC);
  double clock = (ns(CLOCK_THREAD_CPUTIME_ID) - clock_begin) / batches;
  qsort(took, (size_t)batches, sizeof *took, ascending);
  printf("{\"median\": %.1f, \"mean\": %.1f, \"clock\": %.1f}\n", took[batches / 2], mean, clock);
  return 0;
}
#endif
