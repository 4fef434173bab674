// Blocks that are taken and given back again and again, among others that stay. Compiled with -fno-builtin: the compiler knows malloc().
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>

enum { PAIRS = 100000, STAY = 1000 };

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

// CPU time of a malloc() with its free(), the least of all rounds.
double pair_ns(int rounds, size_t bytes) {
  static void* blocks[STAY];
  unsigned at = 0;
  double least = 1e12;
  for (int round = 0; round < rounds; round++) {
    double begin = now_ns();
    for (int pair = 0; pair < PAIRS; pair++) {
      at = at * 1103515245u + 12345u;
      void** block = blocks + (at >> 8) % STAY;
      free(*block);
      *block = malloc(bytes);
    }
    double took = (now_ns() - begin) / PAIRS;
    if (took < least) least = took;
  }
  return least;
}
