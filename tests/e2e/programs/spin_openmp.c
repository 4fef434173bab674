// The same split in parallel regions: every thread of the team spins.
#include <omp.h>

#include "spin.c"

void spin_parallel(int64_t ns, int threads, struct stay* stays) {
#pragma omp parallel num_threads(threads)
  spin(ns, &stays[omp_get_thread_num()]);
}
