// For ticks.py: what a tick costs the code that it interrupts, and what a thread costs that starts, is sampled never, and ends.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static volatile uint64_t sink;

// Work below so many frames: the length of stack that a tick has to unwind.
static __attribute__((noinline)) uint64_t deep(int frames, uint64_t rounds) {
  if (frames > 0) return deep(frames - 1, rounds) + 1;
  uint64_t sum = sink;
  for (uint64_t round = 0; round < rounds; round++) sum = sum * 6364136223846793005u + round;
  return sink = sum;
}

static double block(int frames, uint64_t rounds) {
  double begin = now(CLOCK_THREAD_CPUTIME_ID);
  deep(frames, rounds);
  return now(CLOCK_THREAD_CPUTIME_ID) - begin;
}

// Neighbouring blocks with and without ticks: their times, a pair a line.
static int ticks(int frames, int pairs) {
  void (*pause)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "aiflame_pause");
  void (*resume)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "aiflame_resume");
  uint64_t rounds = 1000000;
  while (block(frames, rounds) < 1e8) rounds += rounds / 2;
  for (int pair = 0; pair < pairs; pair++) {
    double with = 0, without = 0;
    for (int turn = 0; turn < 2; turn++) {
      int ticking = (turn + pair) % 2;
      if (ticking && resume) resume();
      if (!ticking && pause) pause();
      *(ticking ? &with : &without) = block(frames, rounds);
    }
    printf("%.0f %.0f\n", with, without);
  }
  return 0;
}

// The signal of a tick as the kernel's timer sends it, sent by hand: its handler alone, without the timer's interrupt.
static siginfo_t tick_by_hand(void) {
  siginfo_t info = {.si_signo = SIGPROF, .si_code = SI_TIMER};
  info.si_value.sival_int = 0;
  FILE* file = fopen("/proc/self/timers", "r");
  void* value = NULL;
  int id = 0;
  for (char line[128]; file && fgets(line, sizeof line, file);)
    if (sscanf(line, "ID: %d", &id) == 1) info.si_timerid = id;
    else if (sscanf(line, "signal: %*d/%p", &value) == 1) info.si_value.sival_ptr = value;
  if (file) fclose(file);
  return info;
}

static void no_tick(int signal) { (void)signal; }

static __attribute__((noinline)) int send_below(int frames, siginfo_t* tick, int times) {
  if (frames > 0) return send_below(frames - 1, tick, times) + 1;
  pid_t process = getpid(), thread = (pid_t)syscall(SYS_gettid);
  for (int time = 0; time < times; time++) syscall(SYS_rt_tgsigqueueinfo, process, thread, SIGPROF, tick);
  return (int)(sink = sink + 1);
}

// Nanoseconds for the signal of a tick and its handler, a block of them a line. Alone, the handler does nothing.
static int handlers(int frames, int blocks) {
  enum { kTimes = 5000 };
  siginfo_t tick = tick_by_hand();
  if (!getenv("LD_PRELOAD")) signal(SIGPROF, no_tick);
  for (int number = 0; number < blocks; number++) {
    double begin = now(CLOCK_THREAD_CPUTIME_ID);
    send_below(frames, &tick, kTimes);
    printf("%.1f\n", (now(CLOCK_THREAD_CPUTIME_ID) - begin) / kTimes);
  }
  return 0;
}

static void* nothing(void* argument) { return argument; }

// Nanoseconds for a thread that starts and is waited for, a round a line.
static int starts(int rounds, int threads) {
  for (int round = 0; round < rounds; round++) {
    double begin = now(CLOCK_MONOTONIC);
    for (int number = 0; number < threads; number++) {
      pthread_t thread;
      if (pthread_create(&thread, NULL, nothing, NULL)) return 1;
      pthread_join(thread, NULL);
    }
    printf("%.0f\n", (now(CLOCK_MONOTONIC) - begin) / threads);
  }
  return 0;
}

static pthread_barrier_t all, seen;
static void* waits(void* argument) {
  pthread_barrier_wait(&all);
  pthread_barrier_wait(&seen);
  return argument;
}

static long resident(void) {
  long pages = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  if (file) fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}

// Bytes of memory a thread that waits.
static int memory(int threads) {
  pthread_barrier_init(&all, NULL, (unsigned)threads + 1);
  pthread_barrier_init(&seen, NULL, (unsigned)threads + 1);
  pthread_t* made = calloc((size_t)threads, sizeof *made);
  memset(made, 1, (size_t)threads * sizeof *made);
  long before = resident();
  for (int number = 0; number < threads; number++)
    if (pthread_create(&made[number], NULL, waits, NULL)) return 1;
  pthread_barrier_wait(&all);
  usleep(300000);
  printf("%ld\n", (resident() - before) / threads);
  pthread_barrier_wait(&seen);
  for (int number = 0; number < threads; number++) pthread_join(made[number], NULL);
  free(made);
  return 0;
}

int main(int count, char** words) {
  if (count == 4 && !strcmp(words[1], "ticks")) return ticks(atoi(words[2]), atoi(words[3]));
  if (count == 4 && !strcmp(words[1], "handlers")) return handlers(atoi(words[2]), atoi(words[3]));
  if (count == 4 && !strcmp(words[1], "starts")) return starts(atoi(words[2]), atoi(words[3]));
  if (count == 3 && !strcmp(words[1], "memory")) return memory(atoi(words[2]));
  return 2;
}
