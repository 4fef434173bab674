// The same split in parallel regions: every thread of the team spins.
#include <stdint.h>

#include "spin.c"

void spin_parallel(int64_t ns, int threads) {
#pragma omp parallel num_threads(threads)
  spin(ns);
}
