"""Memory that grows: the line, the amount, and near misses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from memory_snapshots import Device, Frame, python, snapshot, written

import aiflame
from aiflame.analyze.findings.listing import listing
from aiflame.analyze.memory.growth import growth
from aiflame.analyze.tables.memory import memory_tables
from aiflame.analyze.top import top
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.trees.build import tree
from aiflame.profile.tables.interface import OpenedProfile

MIB = 1 << 20
MAIN = python("<module>", "train.py", 90)
STEP_US = 10_000


def trained(folder: Path, steps: int, *, leak: int = 0, late: bool = False) -> OpenedProfile:
    """Parameters of 50 MiB, and in each step eight activations, and two batches that live until the step after the next. `leak`: bytes
    that `append` keeps in each step; `late`: `grow` takes as much as the parameters in the second half, once."""
    device = Device(0)

    def take(size: int, function: str, file: str, line: int) -> int:
        return device.alloc(size, stack(function, file, line))

    take(50 * MIB, "init", "model.py", 5)
    batches: list[int] = []
    for step in range(steps):
        began = device.now
        batches += [take(MIB, "load", "data.py", 8) for _ in range(2)]
        activations = [take(4 * MIB, "forward", "model.py", 20) for _ in range(8)]
        if step == 0:
            take(100 * MIB, "step", "optimizer.py", 3)
        if leak:
            take(leak, "append", "train.py", 71)
        if late and step == steps // 2:
            take(50 * MIB, "grow", "model.py", 40)
        for address in activations:
            device.free(address, [MAIN])
        while len(batches) > 4:
            device.free(batches.pop(0), [MAIN])
        device.now = began + STEP_US
    file = folder / "snapshot.pickle"
    file.write_bytes(written(snapshot(device)))
    return aiflame.open(file).store


def stack(function: str, file: str, line: int) -> list[Frame]:
    return [python(function, file, line), MAIN]


def grown(profile: OpenedProfile) -> list[Any]:
    return list(growth(Analysis(profile)))


def test_the_line_that_keeps_a_tensor_in_each_step_is_named(tmp_path: Path) -> None:
    (one,) = grown(trained(tmp_path, 60, leak=MIB))
    assert (one.memory, one.place, one.function, one.of_steps) == ("GPU 0", "train.py:71", "append", False)
    assert one.pace == pytest.approx(MIB / (STEP_US / 1e6), rel=0.06)
    assert one.grown == pytest.approx(57 * MIB, rel=0.06), "the first stretch may allocate the program's state"
    assert 57 / (50 + 100 + 60 + 6 + 32) <= one.share <= 57 / (50 + 100 + 57), "the run may end within a step"


@pytest.mark.parametrize("late", [False, True])
def test_state_activations_and_batches_that_are_freed_later_do_not_grow(late: bool, tmp_path: Path) -> None:
    assert grown(trained(tmp_path, 60, late=late)) == []


def test_a_little_growth_is_not_worth_a_sentence(tmp_path: Path) -> None:
    assert grown(trained(tmp_path, 60, leak=512)) == []


def test_a_few_allocations_show_nothing(tmp_path: Path) -> None:
    device = Device(0)
    for _ in range(3):
        device.alloc(MIB, stack("append", "train.py", 71))
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(written(snapshot(device)))
    assert grown(aiflame.open(file).store) == []


def test_findings_say_what_grows_and_what_fills_the_peak(tmp_path: Path) -> None:
    listed = listing(trained(tmp_path, 60, leak=MIB), 5).findings
    assert [one.finding.kind for one in listed] == ["memory-grows", "memory-peak"]
    grows, peak = (one.finding for one in listed)
    assert grows.sentence.startswith("GPU 0's memory grows by ")
    ends = (
        r"MiB a second: memory from append\(\) \(train.py:71\) is never freed, 5[67] MiB at the end of the run, 2[2-7]% of the live bytes"
    )
    assert re.search(ends, grows.sentence)
    assert peak.sentence == "40% of GPU 0's memory at its peak of 248 MiB come from step() (optimizer.py:3)"
    assert [one.finding.view.place for one in listed] == ["train.py:71", "optimizer.py:3"]
    assert all(one.fix for one in listed)


def test_a_failed_allocation_says_who_asked_and_what_was_live(tmp_path: Path) -> None:
    device = Device(0)
    device.alloc(30 * MIB, stack("cache", "model.py", 7))
    device.alloc(10 * MIB, stack("init", "model.py", 5))
    device.fail(20 << 30, 1 << 30, stack("attention", "model.py", 30))
    device.alloc(500 * MIB, stack("smaller", "train.py", 12))
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(written(snapshot(device)))
    first = listing(aiflame.open(file).store, 5).findings[0]
    assert first.finding.sentence == (
        "GPU 0 had no 20 GiB for attention() (model.py:30): 1 GiB were free, and 40 MiB were live, 75% of them from cache() (model.py:7)"
    )
    assert first.finding.kind == "memory-refused" and "--at oom" in first.fix


def test_the_table_has_the_peak_the_sums_and_the_lives_of_each_line(tmp_path: Path) -> None:
    (table, _) = memory_tables(Analysis(trained(tmp_path, 10)))
    rows = {row["place"]: row for row in table.rows.iter_rows(named=True)}
    assert rows["model.py:5"] | {"share": 0, "life": 0} == {
        "memory": "GPU 0",
        "function": "init",
        "peak": 50 * MIB,
        "share": 0,
        "allocated": 50 * MIB,
        "allocations": 1,
        "life": 0,
        "place": "model.py:5",
    }
    assert rows["model.py:5"]["life"] == pytest.approx(9 * STEP_US * 1000, rel=0.1), "to the end"
    forward = rows["model.py:20"]
    assert (forward["peak"], forward["allocated"], forward["allocations"]) == (8 * 4 * MIB, 10 * 8 * 4 * MIB, 80)
    assert 0 < forward["life"] < STEP_US * 1000, "they are freed in their step"
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
    assert table.rows["peak"].is_sorted(descending=True)


def test_a_snapshot_without_times_grows_without_a_pace(tmp_path: Path) -> None:
    device = Device(0)
    for _ in range(200):
        device.alloc(MIB, stack("append", "train.py", 71))
    content = snapshot(device)
    for event in content["device_traces"][0]:
        del event["time_us"]
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(written(content))
    (first, *_) = listing(aiflame.open(file).store, 5).findings
    assert first.finding.sentence.startswith("GPU 0's memory grows: memory from append() (train.py:71) is never freed")


def test_the_table_of_growth_has_the_lines_that_called(tmp_path: Path) -> None:
    tables = {table.name: table.rows for table in memory_tables(Analysis(trained(tmp_path, 60, leak=5 * MIB)))}
    (row,) = tables["memory_growth"].iter_rows(named=True)
    assert (row["place"], row["function"], row["grown"]) == ("train.py:71", "append", 57 * 5 * MIB)
    assert row["callers"] == "<module>() (train.py:90)"
    assert row["pace"] == pytest.approx(5 * MIB / (STEP_US / 1e6), rel=0.1)


def of_ranks(folder: Path, *leaks: int) -> OpenedProfile:
    """A job of which each rank leaks so many bytes in each step."""
    job = folder / "job"
    job.mkdir()
    for rank, leak in enumerate(leaks):
        trained(folder, 60, leak=leak)
        (folder / "snapshot.pickle").rename(job / f"rank{rank}.pickle")
    return aiflame.open(job).store


def test_a_line_that_grows_in_several_ranks_is_one_finding(tmp_path: Path) -> None:
    sentences = [one.finding.sentence for one in listing(of_ranks(tmp_path, MIB, 3 * MIB, 2 * MIB), 9).findings]
    (grows,) = [one for one in sentences if " grows by " in one]
    assert grows.endswith("; likewise in 2 more processes or devices")
    assert "171 MiB at the end of the run" in grows, "the largest: 57 steps of the third that count"


def test_the_largest_holder_of_several_ranks_is_one_finding(tmp_path: Path) -> None:
    sentences = [one.finding.sentence for one in listing(of_ranks(tmp_path, 0, 0), 9).findings]
    (peak,) = [one for one in sentences if " at its peak " in one]
    assert peak.endswith("come from step() (optimizer.py:3); likewise in 1 more process or device")


def test_ranks_add_up_in_trees_and_tables(tmp_path: Path) -> None:
    profile = of_ranks(tmp_path, MIB, 3 * MIB)
    ranks = top(tree(profile, "gpu-bytes", "rank"), "rank", "gpu-bytes").select("name", "self")
    sums = dict(ranks.rows())
    assert set(sums) == {"rank 0", "rank 1"}
    assert sums["rank 1"] - sums["rank 0"] == 2 * 60 * MIB
    assert sum(sums.values()) == tree(profile, "gpu-bytes").total("gpu-bytes") == tree(profile, "gpu-bytes", "category").total("gpu-bytes")
    table = next(iter(memory_tables(Analysis(profile))))
    assert table.rows["peak"].sum() == sum(sums.values())
    assert dict(table.rows.select("place", "allocated").rows())["train.py:71"] == 4 * 60 * MIB
