"""mpi4py: calls with and without pickling, and groups. 4 ranks."""

from __future__ import annotations

from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
assert size == 4
right, left = (rank + 1) % size, (rank - 1) % size

numbers, others = array("d", [rank] * 50), array("d", [0] * 50)
for _ in range(3):
    world.Sendrecv(numbers, dest=right, recvbuf=others, source=left)
assert list(others) == [left] * 50

assert world.sendrecv({"from": rank}, dest=right, source=left) == {"from": left}
world.Allreduce(MPI.IN_PLACE, numbers, op=MPI.SUM)
assert list(numbers) == [6.0] * 50
world.Bcast(others, root=1)

parts = array("i", [0] * 10)
world.Allgatherv(array("i", [rank] * (rank + 1)), [parts, [1, 2, 3, 4]])
assert list(parts) == [0, 1, 1, 2, 2, 2, 3, 3, 3, 3]

pair = world.Split(rank // 2)
pair.Set_name(f"pair {rank // 2}")
pair.Barrier()
pair.Free()
