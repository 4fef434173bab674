// A library whose threads count the system calls that a dump ended early: epoll_wait, poll and nanosleep, each again and again, beside one that
// computes. wait_in_calls() returns when its input does.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { EPOLL, POLL, SLEEP, COMPUTE, KINDS };
static volatile long interrupted[KINDS], calls[KINDS];
static volatile int over;

static void* waits_by_epoll(void* unused) {
  struct epoll_event event;
  for (int file = epoll_create1(0); !over; calls[EPOLL]++) interrupted[EPOLL] += epoll_wait(file, &event, 1, 20) < 0 && errno == EINTR;
  return unused;
}
static void* waits_by_poll(void* unused) {
  for (; !over; calls[POLL]++) interrupted[POLL] += poll(0, 0, 20) < 0;
  return unused;
}
static void* sleeps(void* unused) {
  struct timespec time = {0, 20000000};
  for (; !over; calls[SLEEP]++) interrupted[SLEEP] += nanosleep(&time, 0) != 0;
  return unused;
}
static void* computes(void* unused) {
  for (volatile long step = 0; !over; step++) calls[COMPUTE] = step;
  return unused;
}

void wait_in_calls(void) {
  void* (*all[KINDS])(void*) = {waits_by_epoll, waits_by_poll, sleeps, computes};
  pthread_t threads[KINDS];
  char byte;
  for (int kind = 0; kind < KINDS; kind++) pthread_create(&threads[kind], 0, all[kind], 0);
  puts("ready");
  fflush(stdout);
  if (read(0, &byte, 1) < 0) perror("read");
  over = 1;
  for (int kind = 0; kind < KINDS; kind++) pthread_join(threads[kind], 0);
  for (int kind = 0; kind < COMPUTE; kind++) printf("%ld %ld\n", calls[kind], interrupted[kind]);
  fflush(stdout);
}
