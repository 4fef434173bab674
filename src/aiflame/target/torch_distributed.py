"""Process groups of torch.distributed: their members, and the rank of this process. The collector records the collectives themselves.

Every function that makes a group adds it to one dict of torch's, which we replace by one that records groups. The collector begins to
listen with the first group: a program that only imports torch.distributed is not slowed down.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from typing import Any

import _aiflame

TRACE_TORCH, TORCH = 65536, 6
"""Feature.TRACE_TORCH, CallBackend.TORCH"""
UNKNOWN = 0xFFFFFFFF
LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")

_groups: Groups | None = None


def install(distributed: Any) -> None:
    """`distributed` is torch.distributed.distributed_c10d."""
    global _groups
    _groups = Groups(distributed)
    distributed._pg_group_ranks = _groups
    recording_began()


def recording_began() -> None:
    if _groups is not None:
        for group, ranks in list(_groups.items()):
            _groups.record(group, ranks)


class Groups(dict):  # type: ignore[type-arg]
    """Process group → {rank in the whole job: rank in the group}."""

    def __init__(self, distributed: Any) -> None:
        super().__init__(distributed._pg_group_ranks)
        self._distributed = distributed

    def __setitem__(self, group: Any, ranks: Any) -> None:
        super().__setitem__(group, ranks)
        self.record(group, ranks)

    def record(self, group: Any, ranks: dict[int, int]) -> None:
        if not _aiflame.features & TRACE_TORCH or not hasattr(group, "_get_backend"):
            return
        try:
            if not _aiflame.listen_to_torch_distributed():
                return
            whole = group is self._distributed.GroupMember.WORLD
            if whole:
                record_rank(group.rank(), group.size())
            members = b"" if whole else struct.pack(f"={len(ranks)}I", *sorted(ranks, key=ranks.__getitem__))
            for handle in backends(group):
                _aiflame.add_group(TORCH, handle, group.rank(), group.size(), str(group.group_name), members)
        except Exception as error:
            _aiflame.note(f"torch.distributed: a process group is not known: {type(error).__name__}: {error}".replace("\n", " "))


def record_rank(rank: int, size: int) -> None:
    """Records the rank in a program that started its processes itself; a launcher's variables are recorded already."""
    if (os.environ.get("RANK"), os.environ.get("WORLD_SIZE")) != (str(rank), str(size)):
        _aiflame.append("ranks", rank, size, local_rank(), "torch.distributed", "")


def local_rank() -> int:
    number = next((os.environ[name] for name in LOCAL_RANKS if name in os.environ), "")
    return int(number) if number.isdecimal() else UNKNOWN


def backends(group: Any) -> Iterator[int]:
    """Addresses of the C++ backends of a group: one for all kinds of devices, or one for each."""
    for backend in {id(one): one for one in (group._get_backend(device) for device in group._device_types)}.values():
        yield address(backend)
        wrapped = getattr(backend, "wrapped_pg", None)  # TORCH_DISTRIBUTED_DEBUG=DETAIL
        if wrapped is not None:
            yield address(wrapped)


def address(bound: Any) -> int:
    """The address of the C++ object, which pybind11 keeps after the head of the Python object. It is only compared."""
    return ctypes.c_uint64.from_address(id(bound) + object.__basicsize__).value
