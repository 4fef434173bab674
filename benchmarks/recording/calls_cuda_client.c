/* calls_cuda_client FUNCTION BATCHES alone|heard: ns a call, as calls_mpi_client has them. `heard`: by a user of CUPTI that does nothing, so
   that what CUPTI itself costs can be told from what is done with it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TEN = 10, DRIVER_API = 1, RUNTIME_API = 2 };

static double ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int ascending(const void* left, const void* right) {
  double a = *(const double*)left, b = *(const double*)right;
  return (a > b) - (a < b);
}

static void* find(void* library, const char* name) {
  void* function = library ? dlsym(library, name) : NULL;
  if (!function) fprintf(stderr, "%s is not there\n", name), exit(1);
  return function;
}

static void hear(void* user, int domain, unsigned id, const void* data) { (void)user, (void)domain, (void)id, (void)data; }

static void subscribe(void) {
  void *cupti = dlopen("libcupti.so.13", RTLD_LAZY), *subscriber;
  int (*enable)(unsigned, void*, int) = (int (*)(unsigned, void*, int))find(cupti, "cuptiEnableDomain");
  ((int (*)(void**, void*, void*))find(cupti, "cuptiSubscribe"))(&subscriber, (void*)hear, NULL);
  enable(1, subscriber, DRIVER_API);
  enable(1, subscriber, RUNTIME_API);
}

int main(int count, char** arguments) {
  if (count != 4) return 2;
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY), *context;
  int device, batches = atoi(arguments[2]);
  int (*function)(int*) = (int (*)(int*))find(driver, arguments[1]);
  double* took = calloc((size_t)batches, sizeof *took);
  if (((int (*)(unsigned))find(driver, "cuInit"))(0)) return 1;
  if (((int (*)(void**, unsigned, int))find(driver, "cuCtxCreate_v2"))(&context, 0, 0)) return 1;
  if (strcmp(arguments[3], "heard") == 0) subscribe();
  if (function(&device)) return 1;
  double begin = ns(CLOCK_THREAD_CPUTIME_ID);
  for (int batch = 0; batch < batches; batch++) {
    double batch_begin = ns(CLOCK_MONOTONIC);
    for (int call = 0; call < TEN; call++) function(&device);
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
