/* calls_mpi_client FUNCTION BATCHES: ns a call: the median of batches of ten by the wall clock, and the mean of all calls in CPU time of the
   thread, which has in it what is rare: memory that is touched for the first time. And a reading of the clock. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int MPI_Init(void*, void*);
int MPI_Send(const void*, int, int, int, int, int);
int MPI_Test(void*, int*, void*);

enum { TEN = 10, WORLD = 0x44000000, DOUBLE = 0x4c00080b };

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
  int sends = strcmp(arguments[1], "MPI_Send") == 0, batches = atoi(arguments[2]), flag, request = 0;
  double* took = calloc((size_t)batches, sizeof *took);
  MPI_Init(NULL, NULL);
  MPI_Send(took, 10, DOUBLE, 0, 0, WORLD);
  double begin = ns(CLOCK_THREAD_CPUTIME_ID);
  for (int batch = 0; batch < batches; batch++) {
    double batch_begin = ns(CLOCK_MONOTONIC);
    if (sends)
      for (int call = 0; call < TEN; call++) MPI_Send(took, 10, DOUBLE, 0, 0, WORLD);
    else
      for (int call = 0; call < TEN; call++) MPI_Test(&request, &flag, NULL);
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
