"""A folder of ranks opens as one profile: processes counted on, clocks put together, what is damaged left out and told of."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from profiles import ran, sealed
from rank_folders import Row, S, a_rank, job, rank_folder, working

import aiflame
from aiflame.analyze.ranks.clock_estimate import Meetings, aligned
from aiflame.attribute.sites.cpu import cpu_sites
from aiflame.attribute.timeline.whole import timeline
from aiflame.attribute.transforms.difference import diff
from aiflame.attribute.trees.build import tree
from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Clocks, Host, JobRank, Meta
from aiflame.profile.opening import newest, open_profile
from aiflame.profile.ranks.job import FOLDER, Job
from aiflame.profile.ranks.rank_of import ranks_of
from aiflame.profile.ranks.ranked import Ranked, some_ranks
from aiflame.profile.ranks.shifts import Shift
from aiflame.profile.schema.enums import CallBackend, CallKind
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.store import Profile

THERE = Host(name="node1", boot_id="b1")


def four(path: Path) -> Path:
    return job(path, *(a_rank(rank) for rank in range(4)))


def opened(path: Path) -> Ranked:
    store = open_profile(path)
    assert isinstance(store, Ranked)
    return store


def test_tables_are_put_together_and_processes_counted_on(tmp_path: Path) -> None:
    store = opened(four(tmp_path / "p.aiflame"))
    assert store.table("processes")["process"].to_list() == [0, 1, 2, 3]
    assert store.table("processes")["recorder"].to_list() == [0, 1, 2, 3]
    assert store.table("cpu_samples").group_by("process").len().sort("process").rows() == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert store.has("stacks")
    assert not store.has("kernels")
    assert store.table("kernels").is_empty()
    with pytest.raises(AiflameError, match="has no table 'nonsense'"):
        store.table("nonsense")


def test_queries_see_all_ranks(tmp_path: Path) -> None:
    store = opened(four(tmp_path / "p.aiflame"))
    answer = store.sql("SELECT r.rank, count(*) AS samples FROM cpu_samples s JOIN ranks r USING (process) GROUP BY r.rank ORDER BY r.rank")
    assert answer.rows() == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_the_tree_of_all_ranks_has_all_their_time(tmp_path: Path) -> None:
    profile = aiflame.open(four(tmp_path / "p.aiflame"))
    whole = profile.tree("cpu-time")
    assert whole.total("cpu-time") == (1 + 2 + 3 + 4) * 1000
    assert {f"rank {rank}: train (7)" for rank in range(4)} <= set(whole.frames["name"])  # told apart, though alike in name and number


def test_grouped_by_rank_the_rank_stands_for_its_process_and_what_it_started_stands_below(tmp_path: Path) -> None:
    def tables(rank: int) -> dict[str, list[Row]]:
        one = working(ticks=rank + 1)
        loader = {"pid": 8, "ppid": 7, "start_ns": 101 * S, "command": "loader"}
        one["processes"].append({"process": 1, **loader})
        for name in ("threads", "marks", "stacks"):
            one[name] += [{**row, "process": 1} for row in one[name]]
        one["cpu_samples"].append({"process": 1, "thread": 1, "stack": 1, "weight": 5, "period_ns": 1000, "time_ns": 102 * S})
        return one

    profile = aiflame.open(job(tmp_path / "p.aiflame", a_rank(0, size=2), a_rank(1, size=2), size=2, tables=tables))
    found = profile.tree("cpu-time", by="rank")
    totals = dict(zip(paths(found), found.totals("cpu-time").tolist(), strict=True))
    assert totals["all;rank 0"] == 6000
    assert totals["all;rank 1"] == 7000
    assert totals["all;rank 1;loader (8)"] == 5000
    assert totals["all;rank 1;main thread;work"] == 2000
    offered = cpu_sites(profile.store, "cpu-time")
    assert "rank" in [grouping.name for grouping in offered.groupings]
    names = offered.frames["name"].gather(offered.segments["rank"].frame[1:]).to_list()
    assert sorted(names) == ["loader (8)", "loader (8)", "rank 0", "rank 1"]


def test_without_ranks_grouping_by_them_is_an_error_and_not_offered(tmp_path: Path) -> None:
    profile = aiflame.open(sealed(tmp_path / "p.aiflame", None, **working()).path)
    with pytest.raises(AiflameError, match="no ranks"):
        profile.tree("cpu-time", by="rank")
    assert "rank" not in [grouping.name for grouping in cpu_sites(profile.store, "cpu-time").groupings]


def test_ranks_against_ranks_differ_by_what_they_did(tmp_path: Path) -> None:
    path = four(tmp_path / "p.aiflame")
    before, now = aiflame.open(path, ranks={0}), aiflame.open(path, ranks={3})
    difference = diff(before.tree("cpu-time"), now.tree("cpu-time"), "cpu-time")
    assert {name: int(value.sum()) for name, value in difference.values.items()} == {"base": 1000, "new": 4000}
    assert difference.frames.filter(pl.col("kind") == int(Kind.PROCESS))["name"].to_list() == ["train"]  # the same in both


def test_some_ranks_are_a_profile(tmp_path: Path) -> None:
    store = some_ranks(opened(four(tmp_path / "p.aiflame")), {1, 3})
    assert store.table("processes")["process"].to_list() == [0, 1]
    assert store.table("ranks")["rank"].to_list() == [1, 3]
    assert store.table("cpu_samples").group_by("process").len().sort("process").rows() == [(0, 2), (1, 4)]
    with pytest.raises(AiflameError, match=r"has no ranks 7,9, only ranks 0-3"):
        some_ranks(opened(tmp_path / "p.aiflame"), {0, 7, 9})


def test_some_ranks_of_a_profile_that_one_recorder_made(tmp_path: Path) -> None:
    rows: dict[str, list[Row]] = {
        "processes": [{"process": at, "pid": 100 + at, "ppid": 100} for at in range(4)],
        "ranks": [{"process": at, "rank": at - 1, "size": 3, "launcher": "torchrun"} for at in (1, 2, 3)],
        "threads": [{"process": at, "tid": 100 + at} for at in range(4)],
    }
    whole = sealed(tmp_path / "p.aiflame", None, **rows)
    store = some_ranks(whole, {1, 2})
    assert store.table("processes").select("process", "pid").rows() == [(0, 102), (1, 103)]
    assert store.table("threads").select("process", "tid").rows() == [(0, 102), (1, 103)]
    with pytest.raises(AiflameError, match="no ranks"):
        some_ranks(sealed(tmp_path / "q.aiflame"), {0})


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


def test_a_clock_of_which_nothing_is_known_is_told_of(tmp_path: Path) -> None:
    store = opened(job(tmp_path / "p.aiflame", a_rank(0), Meta(host=THERE, job_rank=JobRank(1, 2, job="run1")), size=2))
    assert any("clocks of rank 1 and of rank 0 are not known together" in note for note in store.notes())


def test_collectives_move_clocks_further(tmp_path: Path) -> None:
    store = opened(job(tmp_path / "p.aiflame", a_rank(0), a_rank(1, THERE), size=2))
    number = np.tile(np.arange(20), 2)
    rank = np.repeat([0, 1], 20)
    begin = 101 * S + number * 1_000_000 + rank * 3_000_000  # both come at once; rank 1 says so 3 ms later
    met = Meetings(rank, number, begin, begin + 20_000)
    moved, clocks = aligned(store, met)
    assert moved.parts[1].shift.offset_ns == -3_000_000
    assert clocks[1].residual_ns == 20_000
    assert moved.table("cpu_samples")["time_ns"].to_list()[1] == 101 * S - 3_000_000


def test_drift_moves_late_moments_more() -> None:
    shift = Shift(100, 1e-3, 10_000)
    times = pl.DataFrame({"t": [0, 10_000, 20_000]}, schema={"t": pl.UInt64})
    assert times.select(shift.of("t"))["t"].to_list() == [0, 10_100, 20_110]
    assert [shift.moment(time) for time in (0, 10_000, 20_000)] == [0, 10_100, 20_110]
    assert shift.moments(np.array([0, 10_000, 20_000])).tolist() == [90, 10_100, 20_110]


def test_devices_of_several_hosts_are_called_by_their_host(tmp_path: Path) -> None:
    def tables(rank: int) -> dict[str, list[Row]]:
        return working() | ran({"name": "gemm", "device": "H200 [0]", "start_ns": 101 * S, "end_ns": 102 * S})

    two = job(tmp_path / "two.aiflame", a_rank(0), a_rank(1, THERE), size=2, tables=tables)
    assert opened(two).table("kernel_shapes")["device"].to_list() == ["node0: H200 [0]", "node1: H200 [0]"]
    one = job(tmp_path / "one.aiflame", a_rank(0), a_rank(1), size=2, tables=tables)
    assert opened(one).table("kernel_shapes")["device"].to_list() == ["H200 [0]", "H200 [0]"]


def test_what_is_known_of_code_is_told_once(tmp_path: Path) -> None:
    path = job(tmp_path / "p.aiflame", *(a_rank(rank) for rank in range(4)))
    for rank in (1, 2):
        store = open_profile(rank_folder(path, rank))
        assert isinstance(store, Profile)
        store.write_table("kernel_names", pl.DataFrame({"name": ["k", f"k{rank}"], "short": [f"of {rank}"] * 2}))
    assert opened(path).table("kernel_names").sort("name").rows() == [("k", "of 1"), ("k1", "of 1"), ("k2", "of 2")]


def test_telemetry_series_are_counted_on(tmp_path: Path) -> None:
    path = job(tmp_path / "p.aiflame", a_rank(0), a_rank(1, THERE), size=2)
    for rank in range(2):
        store = open_profile(rank_folder(path, rank))
        assert isinstance(store, Profile)
        series = pl.DataFrame({"series": [0, 1], "device": ["GPU 0", "GPU 1"]}, schema={"series": pl.UInt32, "device": pl.String})
        store.write_table("telemetry_series", series)
        store.write_table(
            "telemetry", pl.DataFrame({"series": [1], "value": [float(rank)]}, schema={"series": pl.UInt32, "value": pl.Float64})
        )
    store = opened(path)
    assert store.table("telemetry_series").rows() == [(0, "node0: GPU 0"), (1, "node0: GPU 1"), (2, "node1: GPU 0"), (3, "node1: GPU 1")]
    assert store.table("telemetry").rows() == [(1, 0.0), (3, 1.0)]


def test_kept_files_are_found_in_their_ranks_folder_alone(tmp_path: Path) -> None:
    path = job(tmp_path / "p.aiflame", a_rank(0), a_rank(1), size=2, tables=lambda rank: working() | {"kept_files": [{"file": "graph.py"}]})
    for rank in range(2):
        (rank_folder(path, rank) / "kept").mkdir()
        (rank_folder(path, rank) / "kept" / "graph.py").write_text(f"rank {rank}")
    store = opened(path)
    files = store.table("kept_files")["file"].to_list()
    assert [(store.kept_size(file), store.read_kept(file, 100)) for file in files] == [(6, b"rank 0"), (6, b"rank 1")]
    for outside in ("00001/../../00000/kept/graph.py", "../job"):
        assert (store.kept_size(outside), store.read_kept(outside, 100)) == (None, b"")


def test_a_rank_that_cannot_be_read_spoils_no_other(tmp_path: Path) -> None:
    path = four(tmp_path / "p.aiflame")
    (rank_folder(path, 1) / "tables" / "index.json").write_text("nonsense")
    cut = next((rank_folder(path, 2) / "tables" / "cpu_samples").iterdir())
    cut.write_bytes(cut.read_bytes()[:-1])
    shutil.rmtree(rank_folder(path, 3))
    store = opened(path)
    assert store.table("ranks")["rank"].to_list() == [0]
    told = "\n".join(store.notes())
    assert "rank 1 cannot be read, and is left out" in told
    assert "rank 2 cannot be read, and is left out" in told
    assert "rank 3 left nothing behind" in told
    assert len(store.notes()) == 3
    assert not store.meta.complete
    assert aiflame.open(path).tree("cpu-time").total("cpu-time") == 1000


def test_a_table_that_is_damaged_in_one_rank_is_missing_in_that_rank_alone(tmp_path: Path) -> None:
    path = four(tmp_path / "p.aiflame")
    damaged = next((rank_folder(path, 2) / "tables" / "cpu_samples").iterdir())
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(bytes(content))
    store = opened(path)
    assert sorted(store.table("cpu_samples")["process"].unique().to_list()) == [0, 1, 3]
    assert any("rank 2: its table 'cpu_samples' is left out" in note for note in store.notes())
    assert store.table("processes")["process"].to_list() == [0, 1, 2, 3]


def test_a_rank_that_recorded_nothing_is_told_of(tmp_path: Path) -> None:
    path = job(tmp_path / "p.aiflame", a_rank(0), size=2)
    (rank_folder(path, 1) / "spool").mkdir(parents=True)
    a_rank(1, size=2).with_notes("nothing was recorded: …").write(Folder.open(rank_folder(path, 1)))
    store = opened(path)
    assert store.notes() == ["rank 1 recorded nothing", "rank 1: nothing was recorded: …"]
    assert aiflame.open(path).tree("cpu-time").total("cpu-time") == 1000


def test_a_rank_whose_recorder_died_is_sealed_when_the_whole_is_opened(tmp_path: Path) -> None:
    path = job(tmp_path / "p.aiflame", a_rank(0), size=2)
    (rank_folder(path, 1) / "spool" / "42.100").mkdir(parents=True)
    a_rank(1, size=2, complete=False, exit_status=None).write(Folder.open(rank_folder(path, 1)))
    store = opened(path)
    assert (rank_folder(path, 1) / "tables").is_dir()
    assert not store.meta.complete
    assert store.meta.exit_status is None


def test_ranks_left_by_another_run_are_not_mixed_in(tmp_path: Path) -> None:
    path = job(tmp_path / "p.aiflame", a_rank(0), a_rank(1), size=2)
    older = Meta(job_rank=JobRank(3, 4, 3, "mpich", "older"))
    sealed(rank_folder(path, 3), older, **working(ticks=100))
    store = opened(path)
    assert [part.rank for part in store.parts] == [0, 1]
    assert store.notes() == []


def test_ranks_that_were_not_to_be_recorded_are_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "p.aiflame"
    sealed(rank_folder(path, 2), a_rank(2), **working())
    Job("run1", "mpich", 4, "2").announce(Folder.open(path))
    assert opened(path).notes() == []
    assert opened(path).meta.complete


def test_without_one_rank_that_can_be_read_it_is_an_error(tmp_path: Path) -> None:
    path = four(tmp_path / "p.aiflame")
    for rank in range(4):
        (rank_folder(path, rank) / "tables" / "index.json").write_text("nonsense")
    with pytest.raises(AiflameError, match=r"no rank of it can be read: rank 0 cannot be read"):
        open_profile(path)
    (tmp_path / "empty.aiflame" / FOLDER).mkdir(parents=True)
    with pytest.raises(AiflameError, match="no rank of it can be read"):
        open_profile(tmp_path / "empty.aiflame")


def test_notes_say_which_ranks_they_are_of_unless_they_are_of_all(tmp_path: Path) -> None:
    metas = [a_rank(rank).with_notes("of all", *(["of some"] if rank in (0, 1, 3) else [])) for rank in range(4)]
    assert opened(job(tmp_path / "p.aiflame", *metas)).notes() == ["of all", "ranks 0-1,3: of some"]


def test_the_worst_end_of_all_ranks_is_that_of_the_whole(tmp_path: Path) -> None:
    metas = [a_rank(rank, exit_status=-9 if rank == 2 else 0) for rank in range(4)]
    assert opened(job(tmp_path / "p.aiflame", *metas)).meta.exit_status == -9


def test_the_timeline_has_every_rank_under_its_name(tmp_path: Path) -> None:
    made = timeline(opened(resolved(four(tmp_path / "p.aiflame"))))
    names = " ".join(made.tracks["name"].to_list())
    assert all(f"rank {rank}: train" in names for rank in range(4))


def test_the_newest_profile_may_be_one_of_ranks(tmp_path: Path) -> None:
    sealed(tmp_path / "old.aiflame", Meta(started=Clocks(1, 1, 1 * S)))
    path = four(tmp_path / "new.aiflame")
    assert newest(tmp_path) == path


@pytest.mark.parametrize(
    ("processes", "ranks", "found"),
    [
        pytest.param(
            [{"pid": 1}, {"pid": 2, "ppid": 1}, {"pid": 3, "ppid": 2}],
            [{"process": 1, "rank": 5, "size": 8, "launcher": "mpich"}],
            [5, 5, 5],
            id="a shell above, a worker below",
        ),
        pytest.param(
            [{"pid": 1}, {"pid": 2, "ppid": 1}, {"pid": 3, "ppid": 1}],
            [{"process": at, "rank": at, "size": 8, "launcher": "mpich"} for at in (1, 2)],
            [-1, 1, 2],
            id="a launcher of several",
        ),
        pytest.param(
            [{"pid": 1}, {"pid": 2, "ppid": 1}, {"pid": 3, "ppid": 1}],
            [
                *({"process": at, "rank": 1, "size": 2, "launcher": "slurm"} for at in (0, 1, 2)),
                *({"process": at, "id": 2, "rank": 8 + at, "size": 16, "launcher": "torchrun"} for at in (1, 2)),
            ],
            [-1, 9, 10],
            id="torchrun on a node of Slurm",
        ),
        pytest.param([{"pid": 1}], [{"process": 0, "rank": 0, "size": 1, "launcher": "mpich"}], [-1], id="a job of one"),
        pytest.param(
            [
                {"pid": 1, "start_ns": 5},
                {"pid": 1, "start_ns": 9},
                {"pid": 2, "ppid": 1, "start_ns": 7},
                {"pid": 3, "ppid": 1, "start_ns": 10},
            ],
            [{"process": at, "rank": at, "size": 8, "launcher": "mpich"} for at in (0, 1)],
            [0, 1, 0, 1],
            id="a process number that came again",
        ),
    ],
)
def test_every_process_has_the_rank_that_it_works_for(tmp_path: Path, processes: list[Row], ranks: list[Row], found: list[int]) -> None:
    rows = [{"process": at, **row} for at, row in enumerate(processes)]
    profile = sealed(tmp_path / "p.aiflame", processes=rows, ranks=ranks)
    assert ranks_of(profile.table("processes"), profile.table("ranks")).tolist() == found


def resolved(path: Path) -> Path:
    aiflame.open(path)
    return path


def paths(found: Any) -> list[str]:
    names = found.frames["name"].to_list()
    told: list[str] = []
    for node in range(len(found)):
        above = [told[found.parent[node]]] if node else []
        told.append(";".join([*above, names[found.frame[node]]]))
    return told


def test_damaged_numbers_of_processes_are_no_rank(tmp_path: Path) -> None:
    rows: dict[str, list[Row]] = {**working(), "ranks": [{"process": 77, "rank": 1, "size": 4, "launcher": "mpich"}]}
    assert tree(aiflame.open(sealed(tmp_path / "p.aiflame", None, **rows).path).store, "cpu-time").total("cpu-time") == 1000


def test_hosts_whose_ranks_met_in_traced_calls_are_put_together_by_them(tmp_path: Path) -> None:
    def tables(rank: int) -> dict[str, list[Row]]:
        calls = [
            # Rank 1's clock is 7 ms ahead of what the time of day says.
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


def test_hosts_whose_ranks_are_not_known_to_have_met_are_told_of(tmp_path: Path) -> None:
    path = job(tmp_path / "p.aiflame", a_rank(0, size=2), a_rank(1, THERE, size=2), size=2)
    assert any("by the time of day alone" in note for note in aiflame.open(path).store.notes())
