// Waits in every way for which a signal might matter, and prints what came of each.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int urgent, word;

static void on_urgent(int signal) { urgent += signal == SIGURG; }

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double begun;
static void report(const char* name, long result) {
  printf("%s %ld %d %.2f\n", name, result, result < 0 ? errno : 0, seconds() - begun);
  begun = seconds();
}

static volatile int held;

static void* holds(void* mutex) {
  pthread_mutex_lock(mutex);
  held = 1;
  sleep(1);
  pthread_mutex_unlock(mutex);
  return NULL;
}

int main(int count, char** words) {
  (void)count;
  setvbuf(stdout, NULL, _IOLBF, 0);
  struct timespec half = {0, 500000000};
  struct timeval limit = {0, 700000};
  int sockets[2], pipes[2], poller = epoll_create1(0);
  struct epoll_event event;
  char byte;
  socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
  if (pipe(pipes)) return 1;
  setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  begun = seconds();
  report("sleep", (long)sleep(1));
  report("usleep", usleep(500000));
  report("nanosleep", nanosleep(&half, NULL));
  report("raw nanosleep", syscall(SYS_nanosleep, &half, NULL));
  report("poll", poll(NULL, 0, 500));
  report("raw poll", syscall(SYS_poll, NULL, 0, 500));
  report("ppoll", ppoll(NULL, 0, &half, NULL));
  report("epoll_wait", epoll_wait(poller, &event, 1, 500));
  struct timeval selected = {0, 500000};
  report("select", select(0, NULL, NULL, NULL, &selected));
  report("recv", recv(sockets[0], &byte, 1, 0));
  report("raw futex", syscall(SYS_futex, &word, 128, 0, &half, NULL, 0));

  if (fork() == 0) {
    sleep(1);
    _exit(write(pipes[1], "x", 1) != 1);
  }
  report("read", read(pipes[0], &byte, 1));
  report("wait", wait(NULL) > 0);

  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_t thread;
  pthread_create(&thread, NULL, holds, &mutex);
  while (!held) usleep(1000);
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, NULL);
  report("lock", 0);

  // Its own signals: as many as were sent.
  struct sigaction action = {.sa_handler = on_urgent};
  sigaction(SIGURG, &action, NULL);
  sleep(1);
  raise(SIGURG);
  report("urgent", urgent);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  sleep(1);
  sigset_t pending;
  sigpending(&pending);
  report("pending", sigismember(&pending, SIGURG));
  execlp("sh", "sh", "-c", "sleep 1; echo executed", NULL);
  return words != NULL;
}
