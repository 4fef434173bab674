! The module mpi_f08: handles are structures, error codes may be left out. 2 ranks.
program main
  use mpi_f08
  implicit none
  integer :: rank
  real(8) :: values(9)
  type(MPI_Comm) :: copy
  values = 0
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  if (rank == 0) call MPI_Send(values, 9, MPI_REAL8, 1, 0, MPI_COMM_WORLD)
  if (rank == 1) call MPI_Recv(values, 9, MPI_REAL8, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call MPI_Comm_dup(MPI_COMM_WORLD, copy)
  call MPI_Allreduce(MPI_IN_PLACE, values, 9, MPI_REAL8, MPI_SUM, copy)
  call MPI_Finalize()
end program
