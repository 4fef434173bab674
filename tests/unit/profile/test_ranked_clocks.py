"""The clocks of ranks on several hosts, put together by the time of day and by the collectives that they share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from rank_folders import THERE, Row, S, a_rank, job, opened, working

import aiflame
from aiflame.analyze.ranks.clock_estimate import Meetings, aligned
from aiflame.profile.folder.meta import Clocks, JobRank, Meta
from aiflame.profile.ranks.ranked import Ranked
from aiflame.profile.ranks.shifts import Shift
from aiflame.profile.schema.enums import CallBackend, CallKind


def test_times_of_other_hosts_are_moved_by_the_time_of_day(tmp_path: Path) -> None:
    # node1 was started 40 s before node0, by the time of day: its clock is ahead.
    late = a_rank(1, THERE, Clocks(140 * S, 140 * S, 5000 * S))
    store = opened(job(tmp_path / "p.aiflame", a_rank(0), late, size=2, tables=lambda rank: working(time_ns=(101 + 40 * rank) * S)))
    assert store.table("cpu_samples")["time_ns"].to_list() == [101 * S, 101 * S]
    assert [part.shift.offset_ns for part in store.parts] == [0, -40 * S]
    assert store.table("processes")["start_ns"].to_list() == [100 * S, 60 * S]
    assert store.meta.ended is not None
    assert store.meta.ended.monotonic_ns - store.meta.started.monotonic_ns == S
    assert store.meta.host.name == "node0 and 1 other host"


def test_ranks_of_one_host_share_its_clock_whatever_they_say_of_the_time_of_day(tmp_path: Path) -> None:
    stepped = a_rank(1, started=Clocks(100 * S, 100 * S, 5007 * S))
    assert [part.shift.none for part in opened(job(tmp_path / "p.aiflame", a_rank(0), stepped, size=2)).parts] == [True, True]


def test_readings_of_the_clocks_go_before_the_recorders_one(tmp_path: Path) -> None:
    def tables(rank: int) -> dict[str, list[Row]]:
        ahead = 4900 * S if rank == 0 else 4890 * S
        return working() | {"clocks": [{"monotonic_ns": at * S, "realtime_ns": at * S + ahead} for at in (100, 101, 102, 103)]}

    store = opened(job(tmp_path / "p.aiflame", a_rank(0), a_rank(1, THERE), size=2, tables=tables))
    assert store.parts[1].shift.offset_ns == -10 * S


def test_a_clock_that_cannot_be_aligned_is_noted(tmp_path: Path) -> None:
    store = opened(job(tmp_path / "p.aiflame", a_rank(0), Meta(host=THERE, job_rank=JobRank(1, 2, job="run1")), size=2))
    assert any("no clock readings relate rank 1 to rank 0" in note for note in store.notes())


def test_collectives_move_clocks_further(tmp_path: Path) -> None:
    store = opened(job(tmp_path / "p.aiflame", a_rank(0), a_rank(1, THERE), size=2))
    number = np.tile(np.arange(20), 2)
    rank = np.repeat([0, 1], 20)
    begin = 101 * S + number * 1_000_000 + rank * 3_000_000  # both come at once; rank 1 says so 3 ms later
    meetings = Meetings(rank, number, begin, begin + 20_000)
    moved, clocks = aligned(store, meetings)
    assert moved.parts[1].shift.offset_ns == -3_000_000
    assert clocks[1].residual_ns == 20_000
    assert moved.table("cpu_samples")["time_ns"].to_list()[1] == 101 * S - 3_000_000


def test_drift_moves_late_moments_more() -> None:
    shift = Shift(100, 1e-3, 10_000)
    times = pl.DataFrame({"t": [0, 10_000, 20_000]}, schema={"t": pl.UInt64})
    assert times.select(shift.of("t"))["t"].to_list() == [0, 10_100, 20_110]
    assert [shift.moment(time) for time in (0, 10_000, 20_000)] == [0, 10_100, 20_110]
    assert shift.moments(np.array([0, 10_000, 20_000])).tolist() == [90, 10_100, 20_110]


def test_hosts_are_aligned_by_their_ranks_traced_calls(tmp_path: Path) -> None:
    def tables(rank: int) -> dict[str, list[Row]]:
        calls = [
            # Rank 1's clock is 7 ms ahead of the time of day.
            {"name": 1, "thread": 1, "group": 1, "kind": int(CallKind.BLOCKING), "begin_ns": at, "end_ns": at + 30_000}
            for at in range(101 * S + rank * 7_000_000, 101 * S + rank * 7_000_000 + 20 * 1_000_000, 1_000_000)
        ]
        groups = [{"backend": int(CallBackend.MPI), "rank": rank, "size": 2}]
        names = [{"backend": int(CallBackend.MPI), "name": "MPI_Allreduce"}]
        return working() | {"call_names": names, "groups": groups, "calls": calls}

    path = job(tmp_path / "p.aiflame", a_rank(0, size=2), a_rank(1, THERE, size=2), size=2, tables=tables)
    store = aiflame.open(path).store
    assert isinstance(store, Ranked)
    assert store.parts[1].shift.offset_ns == -7_000_000
    assert store.notes() == []


def test_hosts_without_common_collectives_are_noted(tmp_path: Path) -> None:
    path = job(tmp_path / "p.aiflame", a_rank(0, size=2), a_rank(1, THERE, size=2), size=2)
    assert any("by the time of day alone" in note for note in aiflame.open(path).store.notes())
