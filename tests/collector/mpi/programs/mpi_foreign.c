/* A library's function with a name of Fortran's MPI, which has nothing to do with MPI. Three from one source: the library, and its user with MPI
   (WITH_MPI) and without. */
#ifdef LIBRARY
int mpi_test(int value) { return value + 1; }
#else
#include <stdio.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif
int mpi_test(int value);

int main(void) {
#ifdef WITH_MPI
  MPI_Init(0, 0);
#endif
  printf("%d %d\n", mpi_test(1), mpi_test(41));
#ifdef WITH_MPI
  MPI_Finalize();
#endif
  return 0;
}
#endif
