/* Requests that are kept, and polls: 2 ranks. Prints how often it polled. */
#include <mpi.h>
#include <stdio.h>

int main(void) {
  int rank, provided, polls = 0, done = 0;
  float data[6] = {0};
  MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Request request;
  if (rank == 0) {
    MPI_Send_init(data, 6, MPI_FLOAT, 1, 0, MPI_COMM_WORLD, &request);
  } else {
    MPI_Recv_init(data, 6, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, &request);
  }
  for (int turn = 0; turn < 3; turn++) {
    MPI_Start(&request);
    for (done = 0; !done; polls++) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&request);
  printf("%d %d\n", rank, polls);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
