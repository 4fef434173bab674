"""Which processes belong together: the children of a process, and the ranks of its job on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from aiflame.errors import AiflameError
from aiflame.recorder.attach.target import variables_of
from aiflame.recorder.looks.kernel import threads_of
from aiflame.recorder.place import rank_here


def descendants(pids: Iterable[int]) -> list[int]:
    """Children of these processes, and theirs, that run at this moment."""
    reached = dict.fromkeys(pids)
    asked, waiting = set(reached), list(reached)
    while waiting:
        for child in _children(waiting.pop()):
            if child not in reached:
                reached[child] = None
                waiting.append(child)
    return [pid for pid in reached if pid not in asked]


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        threads = threads_of(pid)
    except OSError:
        return []
    for thread in threads:
        try:
            children += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
        except OSError:  # noqa: PERF203 the thread has ended
            continue
    return children


def job_of(pid: int) -> list[int]:
    """The processes of this machine that a launcher has started with the same job's name as this process or, if a launcher is asked
    for, as one of its children."""
    own = next((job for job in map(_job, (pid, *descendants([pid]))) if job is not None), None)
    if own is None:
        raise AiflameError(f"process {pid} belongs to no job: neither it nor a child has a rank (RANK and WORLD_SIZE, SLURM_PROCID …)")
    running = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return sorted(other for other in running if other != os.getpid() and _job(other) == own)


def _job(pid: int) -> tuple[str, str, int, str, str] | None:
    """The launcher, the job's name, its number of ranks, and where they meet: ranks that were started by hand have no launcher."""
    variables = variables_of(pid)
    rank = rank_here(variables, pid)
    if rank is None:
        return None
    return rank.launcher, rank.job, rank.size, variables.get("MASTER_ADDR", ""), variables.get("MASTER_PORT", "")
