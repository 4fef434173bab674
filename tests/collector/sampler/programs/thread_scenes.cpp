// One scene of threads; prints the resources that the threads leave behind: thread_scenes SCENE [COUNT].
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ticks.hpp"

namespace {

volatile double sink;

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void burn(double seconds) {
  for (double end = cpu_seconds() + seconds; cpu_seconds() < end;)
    for (int turn = 0; turn < 10000; turn++) sink = sink + turn;
}

// Works until there are that many timers, and a while on, lest there be more; or for so long that there will not be.
void burn_until_timers(int wanted) {
  for (double end = cpu_seconds() + 20; timers() != wanted && cpu_seconds() < end;) burn(0.02);
  burn(0.3);
}

using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

// libc's own, past every wrapper.
Create unseen_create() {
  void* libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<Create>(dlsym(libc, "pthread_create"));
}

// Threads that have arrived stay until the gate opens.
pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
std::atomic<int> arrived{0};
void* nothing(void*) { return nullptr; }
void* wait_for_end(void*) {
  arrived++;
  pthread_mutex_lock(&gate);
  pthread_mutex_unlock(&gate);
  return nullptr;
}

std::vector<pthread_t> start(Create create, int count, void* (*routine)(void*)) {
  int wanted = arrived + count;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 * 1024);
  std::vector<pthread_t> threads(static_cast<size_t>(count));
  for (pthread_t& thread : threads)
    if (create(&thread, &small, routine, nullptr) != 0) exit(3);
  while (arrived < wanted) usleep(1000);
  return threads;
}

void finish(const std::vector<pthread_t>& threads) {
  pthread_mutex_unlock(&gate);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  pthread_mutex_lock(&gate);
}

// Children forked while another thread makes threads make threads of their own.
int fork_while_threads_start(int count) {
  pthread_t churner;
  pthread_create(
      &churner, nullptr,
      [](void*) -> void* {
        for (;;) {
          pthread_t thread;
          if (pthread_create(&thread, nullptr, nothing, nullptr) == 0) pthread_join(thread, nullptr);
        }
      },
      nullptr);
  int ended = 0;
  for (int turn = 0; turn < count; turn++) {
    usleep(static_cast<useconds_t>(1000 + turn * 7));
    pid_t pid = fork();
    if (pid == 0) {
      alarm(100);
      for (int at = 0; at < 300; at++) {
        pthread_t thread;
        if (pthread_create(&thread, nullptr, nothing, nullptr) != 0) _exit(3);
        pthread_join(thread, nullptr);
      }
      _exit(0);
    }
    int status = -1;
    ended += waitpid(pid, &status, 0) == pid && status == 0;
  }
  printf("ended %d\n", ended);
  fflush(stdout);
  _exit(0);
}

int many_at_once(int count) {
  int before = timers();
  std::vector<pthread_t> threads = start(pthread_create, count, wait_for_end);
  burn_until_timers(before + count);  // a thread that could not be met while it started gets its timer a little later
  int during = timers();
  finish(threads);
  printf("%d %d %d\n", before, during - before, timers() - before);
  return 0;
}

// Threads that the collector's hooks do not see come and go.
int unseen(int count) {
  int before = timers(), most = 0;
  for (int round = 0; round < 3; round++) {
    std::vector<pthread_t> threads = start(unseen_create(), count, wait_for_end);
    burn_until_timers(before + count);
    most = timers() - before > most ? timers() - before : most;
    finish(threads);
  }
  burn_until_timers(before);
  printf("%d %d\n", most, timers() - before);
  return 0;
}

// A thread that we adopted ends, and one that we see gets its tid.
pid_t wanted_tid, got_tid;
double got_seconds;
int same_tid(int) {
  int before = timers();
  std::vector<pthread_t> first = start(unseen_create(), 1, [](void*) -> void* {
    wanted_tid = gettid();
    burn(0.05);
    return wait_for_end(nullptr);
  });
  burn_until_timers(before + 1);  // it is adopted
  finish(first);
  auto again = [](void*) -> void* {
    got_tid = gettid();
    if (got_tid != wanted_tid) return nullptr;
    burn(0.3);
    for (OwnTicks ticks; !ticks.came();) burn(0.001);
    got_seconds = cpu_seconds();
    return nullptr;
  };
  // The kernel hands out tids in turn.
  while (got_tid != wanted_tid) {
    pid_t pid = vfork();  // the fastest way around
    if (pid == 0) _exit(0);
    int status;
    waitpid(pid, &status, 0);
    int distance = wanted_tid - pid;
    if (distance > 0 && distance < 40)
      for (int at = 0; at < distance + 5 && got_tid != wanted_tid; at++) {
        pthread_t thread;
        pthread_create(&thread, nullptr, again, nullptr);
        pthread_join(thread, nullptr);
      }
  }
  printf("%d %f\n", got_tid, got_seconds);
  return 0;
}

int pause_and_resume(int) {
  auto pause = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "aiflame_pause"));
  auto resume = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "aiflame_resume"));
  burn(0.3);
  std::vector<pthread_t> before = start(pthread_create, 3, wait_for_end);
  burn_until_timers(4);
  int running = timers();
  pause();
  std::vector<pthread_t> during = start(pthread_create, 4, wait_for_end);
  int paused = timers();
  timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  burn(0.5);
  clock_gettime(CLOCK_MONOTONIC, &to);
  resume();
  burn_until_timers(8);
  int resumed = timers();
  before.insert(before.end(), during.begin(), during.end());
  finish(before);
  auto ns = [](timespec at) { return static_cast<long long>(at.tv_sec) * 1000000000 + at.tv_nsec; };
  printf("%d %d %d %lld %lld\n", running, paused, resumed, ns(from), ns(to));
  return 0;
}

// No more timers than the limit of pending signals allows; then more.
int limited(int) {
  rlimit old;
  getrlimit(RLIMIT_SIGPENDING, &old);
  rlimit none{0, old.rlim_max};
  setrlimit(RLIMIT_SIGPENDING, &none);
  int before = timers();
  std::vector<pthread_t> threads = start(pthread_create, 5, wait_for_end);
  int refused = timers() - before;
  setrlimit(RLIMIT_SIGPENDING, &old);
  burn_until_timers(before + 5);
  int later = timers() - before;
  finish(threads);
  printf("%d %d\n", refused, later);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  pthread_mutex_lock(&gate);
  std::string scene = arguments[1];
  int number = count > 2 ? atoi(arguments[2]) : 0;
  if (scene == "fork") return fork_while_threads_start(number);
  if (scene == "many") return many_at_once(number);
  if (scene == "unseen") return unseen(number);
  if (scene == "same-tid") return same_tid(number);
  if (scene == "pause") return pause_and_resume(number);
  if (scene == "limited") return limited(number);
  return 2;
}
