// Code that a program loads late.
#include <ctime>

extern "C" void spin_in_library(double seconds) {
  timespec now, begin;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while (static_cast<double>(now.tv_sec - begin.tv_sec) + static_cast<double>(now.tv_nsec - begin.tv_nsec) * 1e-9 < seconds);
}
