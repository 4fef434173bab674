/* Asks by weak references for functions that its MPI may lack, and calls some that we do not stand before. Prints what it found. */
#include <mpi.h>
#include <stdio.h>

extern char send_c[] __asm__("MPI_Send_c") __attribute__((weak));
extern char session_init[] __asm__("MPI_Session_init") __attribute__((weak));

int main(void) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length, rank;
  MPI_Init(0, 0);
  MPI_Get_library_version(version, &length);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("%d: %d %d %d\n", rank, send_c != 0, session_init != 0, length > 0);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
