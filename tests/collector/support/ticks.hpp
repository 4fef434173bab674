// For programs that must know of the ticks that sample them.
//
// The kernel checks a thread's CPU timers when a tick finds that thread running: on a busy machine it may have run for 0.2 s by then. Code that must
// have samples works until that has happened to a timer of its own.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <cstdio>
#include <cstring>

inline int timers_once() {
  FILE* file = fopen("/proc/self/timers", "r");
  if (!file) return -1;
  char line[256];
  int count = 0;
  while (fgets(line, sizeof line, file)) count += strncmp(line, "ID:", 3) == 0;
  fclose(file);
  return count;
}

// The kernel's timers of this process. It hands the list out in pieces, and on a busy machine one of them can be missing: twice the same
// is believed.
inline int timers() {
  int last = timers_once();
  for (int count; (count = timers_once()) != last;) last = count;
  return last;
}

class OwnTicks {
 public:
  OwnTicks() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGRTMIN);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGRTMIN;
    event._sigev_un._tid = gettid();
    timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_);
    itimerspec every{{0, 1000000}, {0, 1000000}};
    timer_settime(timer_, 0, &every, nullptr);
  }
  ~OwnTicks() { timer_delete(timer_); }
  OwnTicks(const OwnTicks&) = delete;
  OwnTicks& operator=(const OwnTicks&) = delete;

  // At the second, a timer of 1 ms that is older than the first has expired too.
  bool came() {
    timespec none{};
    if (sigtimedwait(&set_, nullptr, &none) == SIGRTMIN) count_++;
    return count_ >= 2;
  }

 private:
  sigset_t set_;
  timer_t timer_;
  int count_ = 0;
};
