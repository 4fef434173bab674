"""Compares the processes of a parallel job: which ranks wait in a collective, and which are elsewhere."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from .described import Described, Thread, job_of


def compared(processes: Sequence[Described]) -> list[str]:
    """Sentences about processes of one job; none for one process."""
    if len(processes) < 2:
        return []
    groups: dict[str, list[Described]] = {}
    for process in processes:
        if thread := _in_collective(process):
            groups.setdefault(thread.collective, []).append(process)
    if not groups:
        return ["no process is in a collective operation"]
    sentences = []
    for collective, inside in groups.items():
        verb = "is" if len(inside) == 1 else "are"
        sentences.append(f"{_named(inside)} {verb} in the collective operation {collective}")
    for process in processes:
        if not _in_collective(process):
            main = process.threads[0]
            place = main.place()
            sentences.append(f"{_named([process])} is elsewhere: {main.name} {main.wait.text}" + (f", {place}" if place else ""))
    return sentences


def _in_collective(process: Described) -> Thread | None:
    """The thread that calls a collective operation: the main one, if several do."""
    return next((thread for thread in process.threads if thread.collective), None)


def _named(processes: Sequence[Described]) -> str:
    if all(process.rank is not None for process in processes):
        numbers = sorted(process.rank for process in processes if process.rank is not None)
        return f"rank{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
    return f"process{'es' * (len(processes) > 1)} {', '.join(str(process.pid) for process in processes)}"


def job_of_process(pid: int) -> list[int]:
    """All processes on this machine that belong to the same job and have a rank; the process itself if it belongs to none."""
    wanted = _job(pid)
    if not wanted[1]:
        return [pid]
    first: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            rank, job = _job(int(name))
            # Children of a rank (DataLoader's workers) inherit its environment: the first process of each rank counts.
            if rank is not None and job == wanted[1] and (rank not in first or int(name) < first[rank]):
                first[rank] = int(name)
    return [first[rank] for rank in sorted(first)]


def _job(pid: int) -> tuple[int | None, tuple[str, ...]]:
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None, ()
    return job_of(dict(entry.decode("utf-8", "replace").split("=", 1) for entry in data.split(b"\0") if b"=" in entry))
