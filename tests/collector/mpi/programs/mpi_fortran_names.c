/* Calls MPI by Fortran's names, as compilers spell them: arguments by reference, handles as numbers. 2 ranks. */
#include <mpi.h>

void mpi_init_(int* error);
void mpi_comm_rank_(int* comm, int* rank, int* error);
void mpi_send_(void* data, int* count, int* type, int* to, int* tag, int* comm, int* error);
void mpi_recv_(void* data, int* count, int* type, int* from, int* tag, int* comm, int* status, int* error);
void mpi_allreduce__(void* in, void* out, int* count, int* type, int* op, int* comm, int* error);
void MPI_COMM_DUP(int* comm, int* copy, int* error);
void mpi_barrier(int* comm, int* error);
void mpi_finalize_(int* error);

int main(void) {
  int error, rank, copy, count = 5, tag = 0, zero = 0, one = 1, data[5] = {0}, sum[5], status[16];
  mpi_init_(&error);
  int world = MPI_Comm_c2f(MPI_COMM_WORLD), type = MPI_Type_c2f(MPI_INT), op = MPI_Op_c2f(MPI_SUM);
  mpi_comm_rank_(&world, &rank, &error);
  if (rank == 0) mpi_send_(data, &count, &type, &one, &tag, &world, &error);
  if (rank == 1) mpi_recv_(data, &count, &type, &zero, &tag, &world, status, &error);
  MPI_COMM_DUP(&world, &copy, &error);
  mpi_allreduce__(data, sum, &count, &type, &op, &copy, &error);
  mpi_barrier(&world, &error);
  mpi_finalize_(&error);
  return error;
}
