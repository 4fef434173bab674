"""Folders of ranks, a sealed profile each, whose samples and clocks are written down."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from profiles import sealed, stack

from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Clocks, Host, JobRank, Meta
from aiflame.profile.opening import open_profile
from aiflame.profile.ranks.job import FOLDER, Job, rank_name
from aiflame.profile.ranks.ranked import Ranked
from aiflame.profile.schema.enums import FrameKind

S = 1_000_000_000
MARK = FrameKind.MARK << 60
HERE = Host(name="node0", boot_id="b0")
THERE = Host(name="node1", boot_id="b1")
Row = dict[str, Any]


def a_rank(rank: int, host: Host = HERE, started: Clocks | None = None, size: int = 4, **more: Any) -> Meta:
    started = started or Clocks(100 * S, 100 * S, 5000 * S)
    ended = Clocks(started.monotonic_ns + S, started.raw_ns + S, started.realtime_ns + S)
    outcome = {"exit_status": 0, "complete": True, **more}
    return Meta(command=("train",), host=host, started=started, ended=ended, job_rank=JobRank(rank, size, rank, "mpich", "run1"), **outcome)


def working(*, pid: int = 7, ticks: int = 1, time_ns: int = 101 * S, name: str = "work") -> dict[str, list[Row]]:
    """A process with one thread that has `ticks` samples in a function."""
    return {
        "processes": [{"pid": pid, "start_ns": 100 * S, "command": "train"}],
        "threads": [{"tid": pid, "start_ns": 100 * S}],
        "marks": [{"text": name}],
        "stacks": stack(MARK | 1),
        "cpu_samples": [{"thread": 1, "stack": 1, "weight": 1, "period_ns": 1000, "time_ns": time_ns + tick} for tick in range(ticks)],
    }


Tables = Callable[[int], dict[str, list[Row]]]


def rank_folder(path: Path, rank: int) -> Path:
    return path / FOLDER / rank_name(rank)


def job(path: Path, *metas: Meta, size: int = 4, tables: Tables = lambda rank: working(ticks=rank + 1)) -> Path:
    for meta in metas:
        assert meta.job_rank is not None
        rank = meta.job_rank.rank
        sealed(rank_folder(path, rank), meta, **tables(rank))
    Job("run1", "mpich", size).announce(Folder.open(path))
    return path


def four(path: Path) -> Path:
    return job(path, *(a_rank(rank) for rank in range(4)))


def opened(path: Path) -> Ranked:
    store = open_profile(path)
    assert isinstance(store, Ranked)
    return store
