"""When values fell: bins of time, parts of steps, and how both become coarser where there are too many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from device_work import GEMM, REASONS, kernel, profile, sample, window
from facts_trees import stacks_of_facts
from hypothesis import given
from hypothesis import strategies as st
from profiles import Row, ran
from written_programs import DEVICE, TRAIN, Program

from aiflame.attribute.arrays.time_bins import Bins, Steps, Sums, by_density, few_enough, in_bins, in_slots
from aiflame.attribute.forest import Forest
from aiflame.attribute.meaning.fewer_regions import fewer_regions
from aiflame.attribute.sites.cpu import cpu_sites
from aiflame.attribute.sites.devices import device_sites
from aiflame.attribute.sites.table import SiteTable
from aiflame.attribute.tree import Frame, frame_table
from aiflame.profile.schema.enums import RegionApi
from aiflame.profile.schema.kinds import Kind

SECOND = 1_000_000_000
MS = 1_000_000


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def rows(of: pl.DataFrame) -> list[tuple[int, ...]]:
    return sorted(of.rows())


def kernels(facts: SiteTable) -> dict[int, str]:
    """The kernel or the lone frame of each group."""
    names, by_group = facts.frames["name"].to_list(), {}
    for group, alone, node in facts.sites.select("group", "alone", "kernel").rows():
        segment, at = ("alone", alone) if alone else ("kernel", node)
        by_group[group] = names[facts.segments[segment].frame[at]]
    return by_group


@pytest.mark.parametrize(("seconds", "milliseconds"), [(4, 1), (6, 10), (599, 10), (601, 100), (7100, 100), (7300, 600)])
def test_a_hundred_bins_are_a_column_of_a_picture(seconds: int, milliseconds: int) -> None:
    bins = Bins.of(5, 5 + seconds * SECOND)
    assert bins.bin_ns == milliseconds * MS
    assert bins.count == -(-seconds * 1000 // milliseconds)


def test_a_run_of_years_has_no_more_bins_than_can_be_shown() -> None:
    assert Bins.of(0, 1 << 61).count <= 1 << 18


def test_a_span_longer_than_a_bin_lies_in_all_bins_that_it_covers() -> None:
    bins = Bins(100, 10, 5)
    spread = in_bins(ints(0, 0, 1, 1), ints(105, 121, 112, 140), ints(108, 123, 135, 140), bins)
    assert rows(spread) == [(0, 0, 3), (0, 2, 2), (1, 1, 8), (1, 2, 10), (1, 3, 5)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-50, 1 << 40), st.integers(0, 1 << 40)), max_size=12), st.integers(1, 1 << 38))
def test_spreading_loses_nothing(intervals: list[tuple[int, int, int]], bin_ns: int) -> None:
    group, start, took = (np.array([row[column] for row in intervals], dtype=np.int64) for column in range(3))
    bins = Bins(0, bin_ns, min(500, (1 << 41) // bin_ns + 1))
    spread = in_bins(group, start, start + took, bins)
    assert np.bincount(spread["group"], spread["value"], 4).tolist() == np.bincount(group, took, 4).tolist()
    assert len(spread) == 0 or (spread["value"].min() > 0 and spread["bin"].max() < bins.count)


@pytest.mark.parametrize("size", [10, 1 << 40])
def test_sums_are_the_same_whether_they_are_an_array_or_not(size: int) -> None:
    sums = Sums(size, 5)
    sums.add(ints(5, 3, 5), ints(1, 2, 3))
    sums.add(ints(3, 9), ints(10, 0))
    assert dict(zip(*(each.tolist() for each in sums.found()), strict=True)) == {3: 12, 5: 4}


def test_a_step_is_parted_evenly_whatever_its_length() -> None:
    steps = Steps(ints(0, 1000), ints(7, 2000), ints(0, 1), 10)
    spread = in_slots(steps, ints(0, 0, 0), ints(0, 1, 1), ints(0, 1000, 1990), ints(7, 1150, 2100))
    of_short = {slot: value for _, step, slot, value in spread.rows() if step == 0}
    assert sum(of_short.values()) == 7 and max(of_short.values()) == 1
    assert rows(spread.filter(step=1)) == [(0, 1, 0, 100), (0, 1, 1, 50), (0, 1, 9, 110)]


def test_rows_become_one_until_pairs_are_few() -> None:
    group, row = np.tile(np.arange(10), 512), np.repeat(np.arange(512), 10)
    assert few_enough(group, row, 5120) == 1
    assert few_enough(group, row, 5119) == 2
    assert few_enough(group, row, 1280) == 4


def test_totals_are_divided_by_density_and_without_samples_by_time() -> None:
    moments = pl.DataFrame({"group": [0, 0, 0, 1, 1], "bin": [0, 1, 2, 0, 1], "value": [10, 10, 20, 5, 15]})
    value = by_density(moments, pl.Series([1.0, 3.0, 0.0, 0.0, 0.0]), ints(8, 8))
    assert value.to_list() == [2, 6, 0, 2, 6]


# Of devices


def test_kernels_copies_and_idle_time_lie_where_they_were(tmp_path: Path) -> None:
    copy: Row = {
        "kind": 1,
        "device": kernel(1, 0, 0)["device"],
        "api": 2,
        "correlation": 3,
        "start_ns": 9 * MS,
        "end_ns": 10 * MS,
        "bytes": 7,
    }
    facts = device_sites(profile(tmp_path, copies=[copy], **ran(kernel(1, MS // 2, 3 * MS), kernel(2, 4 * MS, 5 * MS, "relu"))))
    assert facts.bins.bin_ns == MS
    name = kernels(facts)
    bins: dict[str, dict[int, int]] = {}
    for group, at, value in facts.moments.select("group", "bin", "gpu-time").rows():
        bins.setdefault(name[group], {})[at] = value
    assert bins == {
        "gemm": {0: MS // 2, 1: MS, 2: MS},
        "relu": {4: MS},
        "[copy host→device]": {9: MS},
        "[GPU idle]": {3: MS, 5: MS, 6: MS, 7: MS, 8: MS},
    }


def test_samples_lie_in_their_window_where_their_kernel_ran(tmp_path: Path) -> None:
    """Three windows of 4 ms: in the first one relu ran half as long as gemm; in the last one only gemm did, twice."""
    launched = [kernel(1, 0, 2 * MS), kernel(2, 3 * MS, 4 * MS, "relu"), kernel(1, 8 * MS, 9 * MS), kernel(1, 11 * MS, 12 * MS)]
    windows = [window(0, 4 * MS, period_log2=23), window(4 * MS, 8 * MS, dropped=5, period_log2=23), window(8 * MS, 12 * MS)]
    samples = [sample(20), sample(30, function=2), sample(8, in_window=3)]
    functions = [*GEMM, {"cubin": 8, "name": "relu"}]
    facts = device_sites(profile(tmp_path, gpu_functions=functions, gpu_windows=windows, gpu_samples=samples, **ran(*launched)))
    name = kernels(facts)
    bins: dict[str, dict[int, int]] = {}
    for group, at, value in facts.moments.select("group", "bin", "gpu-stalls").rows():
        if value:
            bins.setdefault(name[group], {})[at] = value
    assert (facts.window_ns, facts.period_log2) == (4 * MS, 23)
    assert bins == {"gemm": {0: 10, 1: 10, 8: 4, 11: 4}, "relu": {3: 30}, "[unattributed: samples dropped]": {6: 5}}


def training(path: Path) -> SiteTable:
    """Each of four steps launches all its kernels at once. They take 100 ns on the device, which begins after the last launch."""
    program = Program()
    at = 10_000
    for _ in range(4):
        program.data()
        for took in (20, 40):
            program.forward("model", start_ns=at, end_ns=at + took)
            at += took
        program.optimizer()
        program.kernels[-1] |= {"start_ns": at, "end_ns": at + 40}
        at += 40
    return device_sites(program.profile(path))


def test_a_step_is_when_its_work_ran_however_late_that_was(tmp_path: Path) -> None:
    facts = training(tmp_path)
    assert facts.steps["number"].to_list() == [0, 1, 2, 3]
    assert facts.steps["begin"].to_list()[1:] == [10_100, 10_200, 10_300]
    assert facts.steps["end"].to_list() == [10_100, 10_200, 10_300, 10_400]
    slots = facts.slot_values.filter(step=1).group_by("slot").agg(pl.col("gpu-time").sum()).sort("slot")
    assert slots["slot"].to_list() == list(range(100))
    assert slots["gpu-time"].to_list() == [1] * 100
    name = kernels(facts)
    adam = facts.slot_values.filter((pl.col("step") == 2) & pl.col("group").is_in([group for group in name if name[group] == "adam"]))
    assert adam["slot"].sort().to_list() == list(range(60, 100))


def test_steps_that_are_too_many_are_shown_several_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = training(tmp_path / "whole")
    monkeypatch.setattr("aiflame.attribute.sites.steps.MOST_ROWS", 60)
    facts = training(tmp_path / "few")
    assert facts.slots == 25
    assert (facts.steps["number"].to_list(), facts.steps["end"].to_list()) == ([0, 2], [10_200, 10_400])
    assert facts.slot_values["gpu-time"].sum() == whole.slot_values["gpu-time"].sum()
    assert [note for note in facts.notes if note.startswith("2 consecutive steps")]


def sampled_steps(path: Path, *ran_ms: tuple[float, float], windows: dict[tuple[int, int], int]) -> dict[int, int]:
    """Each step runs one kernel, from and to these ms; samples of windows (from and to these ms): how many samples each step has."""
    program = Program()
    for begin, end in ran_ms:
        program.now = round(begin * MS) - 1000
        program.data()
        program.forward("model", start_ns=round(begin * MS), end_ns=round(end * MS))
        program.optimizer()
        program.kernels[-1] |= {"start_ns": round(end * MS), "end_ns": round(end * MS) + 10}
    rows = [{**window(begin * MS, end * MS), "device": DEVICE} for begin, end in windows]
    samples = [sample(count, number) for number, count in enumerate(windows.values(), 1)]
    program.tables |= {
        "gpu_functions": [{"cubin": 7, "name": "kernel"}],
        "gpu_windows": rows,
        "gpu_samples": samples,
        "stall_reasons": REASONS,
    }
    facts = device_sites(program.profile(path))
    return dict(facts.slot_values.group_by("step").agg(pl.col("gpu-stalls").sum()).sort("step").rows())


def test_steps_have_the_samples_of_their_windows(tmp_path: Path) -> None:
    assert sampled_steps(tmp_path, (2, 8), (12, 18), (22, 28), windows={(0, 10): 4, (10, 20): 40, (20, 30): 8}) == {0: 4, 1: 40, 2: 8}


def test_samples_of_a_window_are_divided_over_its_steps_by_time(tmp_path: Path) -> None:
    assert sampled_steps(tmp_path, (2, 4), (5, 11), (22, 28), windows={(0, 20): 40, (20, 30): 8}) == {0: 10, 1: 30, 2: 8}


def test_samples_that_came_late_do_not_multiply(tmp_path: Path) -> None:
    """The kernel ran 1 µs in the first window of 4 samples; the window's slot also has later work."""
    steps = (9.999, 12), (22, 28), (32, 38)
    assert sampled_steps(tmp_path, *steps, windows={(0, 10): 4, (10, 20): 4, (20, 30): 4, (30, 40): 4}) == {0: 8, 1: 4, 2: 4}


# Of CPUs


def test_a_sample_counts_whole_where_it_was_taken(tmp_path: Path) -> None:
    program = Program()
    times = []
    for _ in range(3):
        program.now += 2 * MS
        times.append(program.sample(TRAIN, "work"))
    facts = cpu_sites(program.profile(tmp_path), "cpu-time")
    assert facts.moments.rows() == [(0, time // MS, 7) for time in times]
    assert facts.sites["first"].to_list() == [times[0] // 1000]


# Of regions


def numbered(names: list[str]) -> Forest:
    """Each of these in `epoch`."""
    frames = frame_table([Frame("epoch", Kind.REGION), *(Frame(name, Kind.REGION) for name in names)])[1:]
    parent = np.array([-1, 0, *(1 for _ in names)], dtype=np.int32)
    return Forest(frames, parent, np.array([0, *range(len(names) + 1)], dtype=np.uint32))


def launched_in(regions: list[int]) -> pl.DataFrame:
    return pl.DataFrame({"process": 0, "stack": 1, "region": pl.Series(regions, dtype=pl.Int32)}).with_columns(
        pl.col("process").cast(pl.Int64)
    )


def test_few_regions_stay_as_they_are() -> None:
    forest, launches = numbered(["Step.1", "Step.2"]), launched_in([2, 3])
    fewer = fewer_regions(launches, forest, most=2)
    assert (fewer.forest, fewer.notes) == (forest, ())
    assert fewer.of(launches) is launches


def test_of_many_regions_those_that_differ_in_numbers_are_one() -> None:
    fewer = fewer_regions(launched_in([2, 3, 4, 5]), numbered(["Step.1", "Step.2", "Step.3", "eval"]), most=2)
    assert [note.partition(" ")[0] for note in fewer.notes] == ["regions"]
    assert fewer.of(launched_in([2, 3, 4, 5]))["region"].n_unique() == 2
    assert sorted(fewer.forest.frames["name"][int(row)] for row in fewer.forest.frame[1:]) == ["Step.*", "epoch", "eval"]


def test_of_many_regions_without_numbers_the_outermost_stays() -> None:
    launches = launched_in([2, 3, 4, 5, 0])
    fewer = fewer_regions(launches, numbered(["a", "b", "c", "d"]), most=2)
    assert fewer.of(launches)["region"].to_list() == [1, 1, 1, 1, 0]
    assert [fewer.forest.frames["name"][int(row)] for row in fewer.forest.frame[1:]] == ["epoch"]


def test_regions_of_each_step_do_not_multiply_the_rows_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiflame.attribute.meaning.fewer_regions.MOST_PLACES", 5)
    monkeypatch.setattr(fewer_regions, "__defaults__", (5,))
    program = Program()
    for number in range(20):
        with program.region(f"Step.{number}", domain="", api=RegionApi.NVTX):
            program.launch(TRAIN, "work")
    facts = device_sites(program.profile(tmp_path))
    of_facts = stacks_of_facts(facts, "gpu-time", "region", "function")
    assert [chain[1].name for chain in of_facts if chain[1].kind == Kind.REGION] == ["Step.*"]
    assert "Step.*" in facts.notes[0]
