/* Calls of MPI with numbers, sizes and peers that are known: 4 ranks. test_mpi.py says what they come to. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 4, TURNS = 5, MANY = 100 };

static int rank, size;

static void in_a_ring(void) {
  int to = (rank + 1) % size, from = (rank + size - 1) % size;
  double out[MANY] = {0}, in[MANY];
  for (int turn = 0; turn < TURNS; turn++) {
    MPI_Request requests[2];
    MPI_Irecv(in, MANY, MPI_DOUBLE, from, turn, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, MANY, MPI_DOUBLE, to, turn, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  MPI_Sendrecv(out, 3, MPI_INT, to, 0, in, 3, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Send(out, 7, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Ssend(out, 2, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Message message;
    MPI_Status status;
    MPI_Mprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(in, 2, MPI_CHAR, &message, &status);
  }
}

static void of_all(void) {
  int one = rank, all[RANKS], counts[RANKS] = {1, 2, 3, 4}, places[RANKS] = {0, 1, 3, 6}, many[10] = {0}, others[10], mine[RANKS] = {0};
  int twos[RANKS] = {2, 2, 2, 2}, two_places[RANKS] = {0, 2, 4, 6}, sends[2 * RANKS] = {0}, receives[2 * RANKS];
  MPI_Datatype types[RANKS] = {MPI_INT, MPI_INT, MPI_INT, MPI_INT};
  int byte_places[RANKS] = {0, 8, 16, 24};
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Bcast(many, 10, MPI_INT, 2, MPI_COMM_WORLD);
  MPI_Allreduce(&one, all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, many, 10, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Reduce(rank == 3 ? MPI_IN_PLACE : many, rank == 3 ? many : NULL, 10, MPI_INT, MPI_SUM, 3, MPI_COMM_WORLD);
  /* What means nothing may be anything: a datatype that is none ends the program when MPI is asked about it. */
  MPI_Gather(rank ? &one : MPI_IN_PLACE, rank ? 1 : 0, rank ? MPI_INT : MPI_DATATYPE_NULL, rank ? NULL : all, rank ? 0 : 1,
             rank ? MPI_DATATYPE_NULL : MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Gatherv(many, rank + 1, MPI_INT, rank == 1 ? others : NULL, rank == 1 ? counts : NULL, rank == 1 ? places : NULL,
              rank == 1 ? MPI_INT : MPI_DATATYPE_NULL, 1, MPI_COMM_WORLD);
  MPI_Scatter(rank ? NULL : all, rank ? 0 : 1, rank ? MPI_DATATYPE_NULL : MPI_INT, &one, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, many, counts, places, MPI_INT, MPI_COMM_WORLD);
  MPI_Alltoall(all, 1, MPI_INT, mine, 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Alltoallv(sends, twos, two_places, MPI_INT, receives, twos, two_places, MPI_INT, MPI_COMM_WORLD);
  MPI_Alltoallw(sends, twos, byte_places, types, receives, twos, byte_places, types, MPI_COMM_WORLD);
  MPI_Reduce_scatter(many, mine, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Scan(&one, all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Request request;
  MPI_Iallreduce(&one, all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void in_groups(void) {
  MPI_Comm half, copy, none;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  MPI_Comm_set_name(half, rank % 2 ? "odd" : "even");
  MPI_Comm_dup(half, &copy);
  MPI_Comm_split(MPI_COMM_WORLD, rank ? MPI_UNDEFINED : 0, 0, &none);
  if (!rank) MPI_Comm_free(&none);
  long long value = rank;
  MPI_Bcast(&value, 1, MPI_LONG_LONG, 0, copy);
  MPI_Comm_free(&copy);
  MPI_Barrier(half);
  MPI_Comm_free(&half);
}

static void to_memory_of_another(void) {
  double memory[8] = {0}, out[8] = {0};
  MPI_Win window;
  MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_set_name(window, "memory");
  MPI_Win_fence(0, window);
  MPI_Put(out, 4, MPI_DOUBLE, (rank + 1) % size, 0, 4, MPI_DOUBLE, window);
  MPI_Accumulate(out, 2, MPI_DOUBLE, 0, 4, 2, MPI_DOUBLE, MPI_SUM, window);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
}

/* Two groups, {2, 0} and {3, 1}, of which the first gives: one member of it, to all of the second. */
static void between_groups(void) {
  MPI_Comm half, both;
  int values[2] = {0}, all[2], first;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  MPI_Comm_rank(half, &first);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 2 : 3, 5, &both);
  int root = rank % 2 ? 0 : first == 0 ? MPI_ROOT : MPI_PROC_NULL;
  MPI_Bcast(values, 2, MPI_INT, root, both);
  MPI_Gather(values, 1, MPI_INT, all, 1, MPI_INT, root, both);
  MPI_Allgather(values, 1, MPI_INT, all, 1, MPI_INT, both);
  MPI_Comm_free(&both);
  MPI_Comm_free(&half);
}

/* Rank 1 waits half a second for a message. */
static void late(void) {
  char text[16] = "late";
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    usleep(500000);
    MPI_Send(text, 16, MPI_CHAR, 1, 99, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Recv(text, 16, MPI_CHAR, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

/* A call that fails, and the program goes on. */
static void failing(void) {
  int value = 0;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (MPI_Send(&value, 1, MPI_INT, 4711, 0, MPI_COMM_WORLD) == MPI_SUCCESS) puts("it did not fail");
}

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  in_a_ring();
  of_all();
  in_groups();
  between_groups();
  to_memory_of_another();
  late();
  failing();
  MPI_Finalize();
  return 0;
}
