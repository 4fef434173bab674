// For short_processes.py: the least that a preloaded recorder does. It maps a control page and a shared file, writes a record there, and has
// one handler, a stack for it and a timer of CPU time.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static char* lives;
static char* control;
static unsigned long place;
static void on_tick(int s, siginfo_t* i, void* c) {
  (void)s;
  (void)i;
  (void)c;
}
static void arm(void) {
  struct sigevent e;
  memset(&e, 0, sizeof e);
  e.sigev_notify = SIGEV_SIGNAL;
  e.sigev_signo = SIGPROF;
  int id;
  if (syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &e, &id)) return;
  struct itimerspec t = {{0, 5000000}, {0, 5000000}};
  syscall(SYS_timer_settime, id, 0, &t, 0);
}
static void begin(void) {
  place = __atomic_fetch_add((unsigned long*)lives, 1, __ATOMIC_RELAXED) % 40000;
  memset(lives + 4096 + place * 88, 1, 44);
}
static void in_child(void) {
  begin();
  arm();
}
__attribute__((constructor)) static void load(void) {
  const char* folder = getenv("LEAST_RECORDER");
  if (!folder) return;
  char path[256];
  strcpy(path, folder);
  strcat(path, "/control");
  int fd = open(path, O_RDWR);
  if (fd < 0) return;
  control = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  strcpy(path, folder);
  strcat(path, "/lives");
  fd = open(path, O_RDWR);
  if (fd < 0) return;
  lives = mmap(0, 4 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (control[0]) begin();
  char* stack = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t s = {.ss_sp = stack, .ss_size = 65536};
  sigaltstack(&s, 0);
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_sigaction = on_tick;
  a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigaction(SIGPROF, &a, 0);
  arm();
  pthread_atfork(0, 0, in_child);
}
__attribute__((destructor)) static void unload(void) {
  if (lives) memset(lives + 4096 + place * 88 + 44, 2, 44);
}
