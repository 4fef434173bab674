// The same split in parallel regions: every thread of the team spins. Returns the CPU time that they took together.
#include <stdint.h>

#include "spin.c"

int64_t spin_parallel(int64_t ns, int threads) {
  int64_t took = 0;
#pragma omp parallel num_threads(threads) reduction(+ : took)
  took += spin(ns);
  return took;
}
