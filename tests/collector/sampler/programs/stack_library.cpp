// Code that a program loads late: it works until over() returns true, which it calls every 5 ms.
#include <ctime>

extern "C" void spin_in_library(bool (*over)(void*), void* argument) {
  do {
    timespec now, begin;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (static_cast<double>(now.tv_sec - begin.tv_sec) + static_cast<double>(now.tv_nsec - begin.tv_nsec) * 1e-9 < 0.005);
  } while (!over(argument));
}
