// A clock inside a recorded process, for programs without Python: preloaded in front of the collector, it says how much CPU time
// each process takes and how much of it copying memory, and how much OpenMP's threads spend outside of the work of parallel regions, that is, waiting.
//
//     gcc -O2 -fPIC -shared second_clock.c -o second_clock.so -ldl -lpthread
//     aiflame record -- sh -c 'LD_PRELOAD=second_clock.so:$LD_PRELOAD exec PROGRAM'
//
// SECOND_CLOCK names the file that each process appends a JSON line to when it exits.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define THREADS 256
#define LEAST_COPY 64  // bytes: a shorter copy takes less time than two readings of the clock

typedef struct {
  _Atomic int tid;
  int launches;  // it begins regions: all that it does outside of them is its own
  uint64_t inside, in_regions, in_barriers, copying, copies;
} Times;

static Times all[THREADS];
static atomic_uint known;
static __thread Times *own_times;
static __thread int depth;
static Times lost;

static Times *own(void) {
  if (!own_times) {
    unsigned at = atomic_fetch_add(&known, 1);
    own_times = at < THREADS ? &all[at] : &lost;
    own_times->tid = (int)syscall(SYS_gettid);
  }
  return own_times;
}

static uint64_t cpu_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

typedef void Body(void *);
typedef struct {
  Body *body;
  void *data;
} Region;

static void work(void *argument) {
  Region *region = argument;
  Times *times = own();
  uint64_t begun = depth++ ? 0 : cpu_ns(CLOCK_THREAD_CPUTIME_ID);
  region->body(region->data);
  if (!--depth) times->inside += cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
}

void GOMP_parallel(Body *body, void *data, unsigned threads, unsigned flags) {
  static void (*next)(Body *, void *, unsigned, unsigned);
  if (!next) next = (void (*)(Body *, void *, unsigned, unsigned))dlsym(RTLD_NEXT, "GOMP_parallel");
  Region region = {body, data};
  Times *times = own();
  times->launches = 1;
  uint64_t begun = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
  next(work, &region, threads, flags);
  if (!depth) times->in_regions += cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
}

// The real one belongs to a library that no global lookup finds.
static void *of_runtime(const char *name) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[4096];
  void *found = NULL;
  while (maps && !found && fgets(line, sizeof line, maps)) {
    char *path = strchr(line, '/');
    if (!path || !strstr(path, "libgomp")) continue;
    path[strcspn(path, "\n")] = 0;
    void *library = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
    found = library ? dlsym(library, name) : NULL;
  }
  if (maps) fclose(maps);
  return found;
}

void GOMP_barrier(void) {
  static void (*real)(void);
  if (!real) real = (void (*)(void))of_runtime("GOMP_barrier");
  uint64_t begun = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
  real();
  if (depth) own()->in_barriers += cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begun;
}

#ifdef COPIES
typedef void *Copy(void *, const void *, size_t);

static void *timed(Copy *real, void *to, const void *from, size_t size) {
  if (size < LEAST_COPY) return real(to, from, size);
  uint64_t begun = __rdtsc();
  void *result = real(to, from, size);
  Times *times = own();
  times->copying += __rdtsc() - begun;
  times->copies++;
  return result;
}

void *memcpy(void *to, const void *from, size_t size) {
  static Copy *real;
  if (!real) real = (Copy *)dlsym(RTLD_NEXT, "memcpy");
  return timed(real, to, from, size);
}

void *memmove(void *to, const void *from, size_t size) {
  static Copy *real;
  if (!real) real = (Copy *)dlsym(RTLD_NEXT, "memmove");
  return timed(real, to, from, size);
}
#endif

// Nanoseconds of CPU time of a thread that still exists, as the kernel counts them.
static uint64_t whole(int tid) {
  char path[64];
  unsigned long long ns = 0;
  snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
  FILE *file = fopen(path, "r");
  if (file && fscanf(file, "%llu", &ns) != 1) ns = 0;
  if (file) fclose(file);
  return ns;
}

static uint64_t started_ns, started_ticks;

__attribute__((constructor)) static void start(void) {
  started_ns = cpu_ns(CLOCK_MONOTONIC);
  started_ticks = __rdtsc();
}

__attribute__((destructor)) static void end(void) {
  const char *name = getenv("SECOND_CLOCK");
  FILE *out = name ? fopen(name, "a") : NULL;
  if (!out) return;
  double tick = (double)(cpu_ns(CLOCK_MONOTONIC) - started_ns) / (double)(__rdtsc() - started_ticks);
  uint64_t waiting = 0, working = 0, copying = 0, copies = 0;
  unsigned count = atomic_load(&known);
  for (unsigned at = 0; at < count && at < THREADS; at++) {
    Times *one = &all[at];
    working += one->inside - one->in_barriers;
    copying += one->copying, copies += one->copies;
    if (one->launches)
      waiting += one->in_regions - one->inside + one->in_barriers;
    else if (one->inside)
      waiting += whole(one->tid) - one->inside + one->in_barriers;
  }
  double cpu_s = (double)cpu_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9;
  fprintf(out, "{\"pid\": %d, \"cpu_s\": %.4f, \"in_c\": {\"all of %s\": %.4f", getpid(), cpu_s, program_invocation_short_name, cpu_s);
  if (working) fprintf(out, ", \"work of OpenMP regions\": %.4f, \"threads that wait in OpenMP\": %.4f", (double)working / 1e9, (double)waiting / 1e9);
  if (copies) fprintf(out, ", \"copies of 64 bytes and more\": %.4f", (double)copying * tick / 1e9);
  fprintf(out, "}}\n");
  fclose(out);
}
