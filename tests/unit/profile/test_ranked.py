"""A folder of ranks opens as one profile: processes counted on, tables put together, and the rank of each process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from profiles import ran, sealed
from rank_folders import THERE, Row, S, a_rank, four, job, opened, rank_folder, working

import aiflame
from aiflame.attribute.sites.cpu import cpu_sites
from aiflame.attribute.timeline.whole import timeline
from aiflame.attribute.transforms.difference import diff
from aiflame.errors import AiflameError
from aiflame.profile.folder.meta import Clocks, Meta
from aiflame.profile.opening import newest, open_profile
from aiflame.profile.ranks.rank_of import ranks_of
from aiflame.profile.ranks.ranked import some_ranks
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.store import Profile


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
    assert {f"rank {rank}: train (7)" for rank in range(4)} <= set(whole.frames["name"])  # distinct, though alike in name and number


def test_grouped_by_rank_the_rank_replaces_its_process_with_children_below(tmp_path: Path) -> None:
    def tables(rank: int) -> dict[str, list[Row]]:
        one = working(ticks=rank + 1)
        loader = {"pid": 8, "ppid": 7, "start_ns": 101 * S, "command": "loader"}
        one["processes"].append({"process": 1, **loader})
        for name in ("threads", "marks", "stacks"):
            one[name] += [{**row, "process": 1} for row in one[name]]
        one["cpu_samples"].append({"process": 1, "thread": 1, "stack": 1, "weight": 5, "period_ns": 1000, "time_ns": 102 * S})
        return one

    profile = aiflame.open(job(tmp_path / "p.aiflame", a_rank(0, size=2), a_rank(1, size=2), size=2, tables=tables))
    call_tree = profile.tree("cpu-time", by="rank")
    totals = dict(zip(paths(call_tree), call_tree.totals("cpu-time").tolist(), strict=True))
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


def test_ranks_against_ranks_differ_by_their_work(tmp_path: Path) -> None:
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


def test_devices_of_several_hosts_are_called_by_their_host(tmp_path: Path) -> None:
    def tables(rank: int) -> dict[str, list[Row]]:
        return working() | ran({"name": "gemm", "device": "H200 [0]", "start_ns": 101 * S, "end_ns": 102 * S})

    two = job(tmp_path / "two.aiflame", a_rank(0), a_rank(1, THERE), size=2, tables=tables)
    assert opened(two).table("kernel_shapes")["device"].to_list() == ["node0: H200 [0]", "node1: H200 [0]"]
    one = job(tmp_path / "one.aiflame", a_rank(0), a_rank(1), size=2, tables=tables)
    assert opened(one).table("kernel_shapes")["device"].to_list() == ["H200 [0]", "H200 [0]"]


def test_facts_about_code_are_sent_once(tmp_path: Path) -> None:
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


def test_the_timeline_has_every_rank_under_its_name(tmp_path: Path) -> None:
    drawn = timeline(opened(resolved(four(tmp_path / "p.aiflame"))))
    names = " ".join(drawn.tracks["name"].to_list())
    assert all(f"rank {rank}: train" in names for rank in range(4))


def test_the_newest_profile_may_be_one_of_ranks(tmp_path: Path) -> None:
    sealed(tmp_path / "old.aiflame", Meta(started=Clocks(1, 1, 1 * S)))
    path = four(tmp_path / "new.aiflame")
    assert newest(tmp_path) == path


@pytest.mark.parametrize(
    ("processes", "ranks", "expected"),
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
def test_every_process_has_the_rank_that_it_works_for(tmp_path: Path, processes: list[Row], ranks: list[Row], expected: list[int]) -> None:
    rows = [{"process": at, **row} for at, row in enumerate(processes)]
    profile = sealed(tmp_path / "p.aiflame", processes=rows, ranks=ranks)
    assert ranks_of(profile.table("processes"), profile.table("ranks")).tolist() == expected


def resolved(path: Path) -> Path:
    aiflame.open(path)
    return path


def paths(call_tree: Any) -> list[str]:
    names = call_tree.frames["name"].to_list()
    labels: list[str] = []
    for node in range(len(call_tree)):
        above = [labels[call_tree.parent[node]]] if node else []
        labels.append(";".join([*above, names[call_tree.frame[node]]]))
    return labels
