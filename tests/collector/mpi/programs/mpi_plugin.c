/* A library that uses MPI, for mpi_loads_it. Its MPI is visible to it alone. */
#include <mpi.h>

int work(void) {
  int value = 1, sum = 0;
  MPI_Init(0, 0);
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return sum;
}
