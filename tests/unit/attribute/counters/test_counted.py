"""Values of hardware counters, divided over kernels and copies whose rates are known by construction."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from device_work import GPU, IDLE, MS, OTHER, Rates, kernel, profile, stretches
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import Row, ran

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.counters.counted import FRAME, counted, counts, counts_of_sites
from aiflame.attribute.counters.intervals import MOST_METRICS
from aiflame.attribute.counters.names import AS_TIME
from aiflame.attribute.devices.work import work
from aiflame.profile.tables.interface import Tables

RATES = {"gemm": 300.0, "norm": 2500.0, "softmax": 1200.0, "cast": 40.0}


def of_kernels(profile: Tables, kernels: list[Row], metric: str = "dram-read-bytes") -> dict[str, int]:
    """The counted value of each kernel, by name, and of IDLE: the part that belongs to nothing of the program."""
    rows = counted(Analysis(profile)).filter(pl.col("metric") == metric)
    sums: dict[str, int] = {}
    for execution, value in rows.select("execution", "value").rows():
        name = IDLE if execution is None else kernels[execution]["name"]
        sums[name] = sums.get(name, 0) + value
    return sums


def truth(kernels: list[Row], rates: Rates) -> dict[str, float]:
    """The true sums of the kernels of each name."""
    sums: dict[str, float] = {}
    for one in kernels:
        sums[one["name"]] = sums.get(one["name"], 0.0) + (one["end_ns"] - one["start_ns"]) * rates.get(one["name"], 0.0)
    return sums


def short_kernels(seed: int, end_ns: int, mean_ns: int = 120_000, names: list[str] | None = None) -> list[Row]:
    """Kernels of random kinds and lengths one after another, with gaps of up to 20 µs."""
    rng = np.random.default_rng(seed)
    kernels: list[Row] = []
    at = 0
    while at < end_ns - 2 * mean_ns:
        length = int(rng.integers(mean_ns // 5, 2 * mean_ns))
        kernels.append(kernel(1 + len(kernels) % 3, at, at + length, str(rng.choice(names or list(RATES)))))
        at += length + int(rng.integers(0, 20_000))
    return kernels


def whole(recorded: Tables) -> dict[str, int]:
    """The totals of the table."""
    return dict(recorded.table("gpu_counters").group_by("metric").agg(pl.col("value").cast(pl.Int64).sum()).rows())


def divided(recorded: Tables) -> dict[str, int]:
    """The totals of the frame."""
    return dict(counted(Analysis(recorded)).group_by("metric").agg(pl.col("value").cast(pl.Int64).sum()).rows())


# Long kernels


def test_a_long_kernel_has_what_was_counted_while_it_ran(tmp_path: Path) -> None:
    """Each fills several stretches, and begins and ends within one that it shares with its neighbour."""
    begins = [300_000, 7_450_000, 12_900_000, 20_125_000, 31_777_777]
    kernels = [kernel(1, begin, end, name) for (begin, end), name in zip(pairwise(begins), RATES, strict=True)]
    recorded = profile(tmp_path, **ran(*kernels), gpu_counters=stretches(kernels, RATES, 35 * MS))
    values = of_kernels(recorded, kernels)
    assert {name: values[name] for name in RATES} == pytest.approx(truth(kernels, RATES), rel=0.01)
    assert values.get(IDLE, 0) <= 0.001 * sum(values.values())


def test_long_kernels_of_a_name_may_have_different_rates(tmp_path: Path) -> None:
    """The same kernel on other shapes: the stretches that it filled alone were measured."""
    kernels = [kernel(1, 0, 5_500_000), kernel(2, 5_500_000, 11 * MS)]
    slow, fast = ({**one, "name": name} for one, name in zip(kernels, ("slow", "fast"), strict=True))
    recorded = profile(tmp_path, **ran(*kernels), gpu_counters=stretches([slow, fast], {"slow": 100.0, "fast": 900.0}, 11 * MS))
    values = counted(recorded).sort("execution")["value"].to_list()
    assert values == pytest.approx([550e6, 4950e6], rel=0.01)


def test_only_what_shared_a_stretch_is_estimated(tmp_path: Path) -> None:
    """The first runs alone; the others meet in the stretch from 10 to 11 ms."""
    kernels = [kernel(1, 0, 5 * MS, "gemm"), kernel(2, 7 * MS, 10_500_000, "norm"), kernel(3, 10_500_000, 14 * MS, "cast")]
    recorded = profile(tmp_path, **ran(*kernels), gpu_counters=stretches(kernels, RATES, 14 * MS))
    rows = counted(recorded).drop_nulls("execution").sort("execution")
    assert rows.schema == FRAME
    assert rows["exact"].to_list() == [True, False, False]
    assert rows["estimated"][0] == 0
    assert rows["estimated"][1] == pytest.approx(500_000 * RATES["norm"], rel=0.01)
    assert rows["estimated"][2] == pytest.approx(500_000 * RATES["cast"], rel=0.01)


def test_traffic_of_an_idle_device_is_nobody_s(tmp_path: Path) -> None:
    kernels = [kernel(1, 10_500_000, 20_250_000, "gemm")]
    recorded = profile(tmp_path, **ran(*kernels), gpu_counters=stretches(kernels, {"gemm": 300.0, IDLE: 20.0}, 40 * MS))
    assert of_kernels(recorded, kernels) == pytest.approx({"gemm": 9_750_000 * 300, IDLE: 30_250_000 * 20}, rel=0.01)


# Short kernels


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_short_kernels_are_told_apart_by_their_kinds(tmp_path: Path, noise: float) -> None:
    """About nine in a stretch; a value is off by 3 %."""
    kernels = short_kernels(1, 600 * MS)
    recorded = profile(tmp_path, **ran(*kernels), gpu_counters=stretches(kernels, RATES, 600 * MS, noise=noise))
    values, true = of_kernels(recorded, kernels), truth(kernels, RATES)
    for name in ("gemm", "norm", "softmax"):
        assert values[name] == pytest.approx(true[name], rel=0.1 if noise else 0.01), name
    assert values["cast"] == pytest.approx(true["cast"], abs=0.02 * sum(true.values()))


def test_rates_have_the_errors_that_they_say(tmp_path: Path) -> None:
    kernels = short_kernels(2, 400 * MS)
    recorded = profile(tmp_path, **ran(*kernels), gpu_counters=stretches(kernels, RATES, 400 * MS, noise=0.03))
    rows = counts(Analysis(recorded)).rates.drop_nulls("name")
    assert rows["told_apart"].all()
    off = {name: (rate - RATES[name]) / error for name, rate, error in rows.select("name", "rate", "error").rows()}
    assert all(abs(one) < 4 for one in off.values()), off
    assert (rows["error"] < 100).all()


def test_kinds_that_always_run_together_are_not_told_apart(tmp_path: Path) -> None:
    """Every stretch has 400 µs of a and then 200 µs of b; c runs elsewhere, alone."""
    pairs = [
        kernel(1, at * MS + begin, at * MS + end, name)
        for at in range(50)
        for begin, end, name in ((100_000, 500_000, "a"), (500_000, 700_000, "b"))
    ]
    others = [kernel(1, at * MS + 200_000, at * MS + 800_000, "c") for at in range(60, 90)]
    kernels = [*pairs, *others]
    recorded = profile(tmp_path, **ran(*kernels), gpu_counters=stretches(kernels, {"a": 300.0, "b": 900.0, "c": 500.0}, 100 * MS))
    rates = dict(counts(Analysis(recorded)).rates.drop_nulls("name").select("name", "told_apart").rows())
    assert rates == {"a": False, "b": False, "c": True}
    values = of_kernels(recorded, kernels)
    assert values["a"] + values["b"] == pytest.approx(50 * (400_000 * 300 + 200_000 * 900), rel=0.01)
    assert values["a"] == pytest.approx(2 * values["b"], rel=0.05)  # by their time


def test_kernels_of_several_streams_are_divided_by_their_rates(tmp_path: Path) -> None:
    """Two streams at the same time, of kinds that also run in other company."""
    first, second = short_kernels(3, 300 * MS, names=["gemm", "norm"]), short_kernels(4, 300 * MS, names=["softmax", "cast"])
    kernels = [*first, *({**one, "stream": 2} for one in second)]
    recorded = profile(tmp_path, **ran(*kernels), gpu_counters=stretches(kernels, RATES, 300 * MS))
    values, true = of_kernels(recorded, kernels), truth(kernels, RATES)
    assert {name: values[name] for name in ("gemm", "norm", "softmax")} == pytest.approx(
        {name: true[name] for name in ("gemm", "norm", "softmax")}, rel=0.05
    )


def test_very_many_kinds_have_rates_too(tmp_path: Path) -> None:
    """The rare ones have one together."""
    names = [f"k{number}" for number in range(600)]
    kernels = short_kernels(5, 300 * MS, mean_ns=100_000, names=names)
    recorded = profile(tmp_path, **ran(*kernels), gpu_counters=stretches(kernels, dict.fromkeys(names, 700.0), 300 * MS))
    values, true = of_kernels(recorded, kernels), truth(kernels, dict.fromkeys(names, 700.0))
    assert sum(values[name] for name in true) == pytest.approx(sum(true.values()), rel=0.01)
    assert "" in counts(Analysis(recorded)).rates["name"].to_list()


# Kinds of counters


def test_cycles_elapse_whatever_runs(tmp_path: Path) -> None:
    """At 1.5 GHz: half of the time of two kernels that run together is each one's, but all of it elapsed for both."""
    kernels = [kernel(1, 0, 10 * MS, "gemm"), kernel(2, 0, 10 * MS, "norm", stream=2), kernel(3, 15 * MS, 16_500_000, "cast")]
    rows = stretches([], {IDLE: 1.5}, 20 * MS, "sm-cycles")
    recorded = profile(tmp_path, **ran(*kernels), gpu_counters=rows)
    assert of_kernels(recorded, kernels, "sm-cycles") == {"gemm": 7_500_000, "norm": 7_500_000, "cast": 2_250_000, IDLE: 12_750_000}
    of = counts(Analysis(recorded))
    assert of.cycles.tolist() == pytest.approx([15e6, 15e6, 2.25e6])
    assert of.covered_ns.tolist() == pytest.approx([10e6, 10e6, 1.5e6])


def test_tensor_cycles_as_time(tmp_path: Path) -> None:
    """A third of the cycles of a clock that changes in the middle."""
    kernels = [kernel(1, 0, 8 * MS, "gemm")]
    rows = [
        {
            "device": GPU,
            "metric": metric,
            "begin_ns": at * MS,
            "end_ns": (at + 1) * MS,
            "value": int((900_000 if at < 4 else 1_800_000) * part),
        }
        for at in range(10)
        for metric, part in (("sm-cycles", 1), ("tensor-cycles", 1 / 3 if at < 8 else 0))
    ]
    of = counts(Analysis(profile(tmp_path, **ran(*kernels), gpu_counters=rows)))
    assert of.values[AS_TIME["tensor-cycles"]].tolist() == [pytest.approx(8 * MS // 3, rel=1e-3)]


def test_bytes_over_pcie_belong_to_copies_with_the_host(tmp_path: Path) -> None:
    """Each copy of 2 MB runs beside a kernel for all of its time."""
    kernels = [kernel(1, at * MS, (at + 1) * MS, "gemm") for at in range(40)]
    copies = [
        {
            "kind": 1, "device": GPU, "api": 2, "correlation": 2, "bytes": 2_000_000, "stream": 2,
            "start_ns": at * MS + 100_000, "end_ns": at * MS + 600_000,
        }
        for at in range(0, 40, 2)
    ]  # fmt: skip
    rows = [
        {"device": GPU, "metric": "pcie-read-bytes", "begin_ns": at * MS, "end_ns": (at + 1) * MS, "value": 2_100_000 if at % 2 == 0 else 0}
        for at in range(40)
    ]
    recorded = profile(tmp_path, **ran(*kernels), copies=copies, gpu_counters=rows)
    values = of_kernels(recorded, [*kernels, *({"name": "copy"} for _ in copies)], "pcie-read-bytes")
    assert values["copy"] == pytest.approx(42_000_000, rel=0.001)


def test_a_copy_of_few_bytes_leaves_a_kernel_its_bytes_over_pcie(tmp_path: Path) -> None:
    """A kernel that reads the host's memory, beside copies of 4 bytes and some of 8 MB alone."""
    kernels = [kernel(1, at * MS, (at + 1) * MS, "gather") for at in range(30)]
    small = [(at * MS + 300_000, 2_000, 4) for at in range(30)]
    large = [(at * MS + 200_000, 600_000, 8_000_000) for at in range(30, 40)]
    copies = [
        {
            "kind": 1, "device": GPU, "api": 2, "correlation": 2, "bytes": size, "stream": 2, "start_ns": begin, "end_ns": begin + took,
        }
        for begin, took, size in (*small, *large)
    ]  # fmt: skip
    rows = [
        {
            "device": GPU,
            "metric": "pcie-read-bytes",
            "begin_ns": at * MS,
            "end_ns": (at + 1) * MS,
            "value": 12_000_000 if at < 30 else 8_000_000,
        }
        for at in range(40)
    ]
    recorded = profile(tmp_path, **ran(*kernels), copies=copies, gpu_counters=rows)
    values = of_kernels(recorded, [*kernels, *({"name": "copy"} for _ in copies)], "pcie-read-bytes")
    assert values["gather"] == pytest.approx(360_000_000, rel=0.01)
    assert values["copy"] == pytest.approx(80_000_000, rel=0.01)


def test_a_vendor_s_counter_is_divided_as_well(tmp_path: Path) -> None:
    kernels = short_kernels(6, 100 * MS)
    name = "\x1b[31mlts__t_sectors.sum\n"
    recorded = profile(tmp_path, **ran(*kernels), gpu_counters=stretches(kernels, RATES, 100 * MS, name))
    values, true = of_kernels(recorded, kernels, name), truth(kernels, RATES)
    assert values["norm"] == pytest.approx(true["norm"], rel=0.02)
    assert divided(recorded) == whole(recorded)


# Devices and processes


def test_kernels_of_all_processes_share_a_device_by_its_address(tmp_path: Path) -> None:
    """The first process counted; the second calls the same device by another number."""
    processes = [{"process": 0, "id": 1, "pid": 1, "exe": "/a"}, {"process": 1, "id": 1, "pid": 2, "exe": "/b"}]
    kernels = [kernel(1, 0, 10 * MS, "gemm"), {**kernel(1, 12 * MS, 20 * MS, "norm", device=OTHER), "process": 1}]
    addresses: list[Row] = [{"device": GPU, "address": "0000:1B:00.0"}, {"process": 1, "device": OTHER, "address": "0000:1b:00.0"}]
    rows = stretches(kernels, RATES, 25 * MS)
    recorded = profile(tmp_path, processes=processes, **ran(*kernels), gpu_counters=rows, gpu_devices=addresses)
    assert of_kernels(recorded, kernels) == {name: pytest.approx(value) for name, value in truth(kernels, RATES).items()}


def test_kernels_of_another_device_have_nothing(tmp_path: Path) -> None:
    kernels = [kernel(1, 0, 10 * MS, "gemm"), kernel(2, 0, 10 * MS, "norm", device=OTHER)]
    recorded = profile(tmp_path, **ran(*kernels), gpu_counters=stretches(kernels[:1], RATES, 20 * MS))
    assert of_kernels(recorded, kernels) == {"gemm": 3_000_000_000}


def test_sums_by_site_are_those_of_their_executions(tmp_path: Path) -> None:
    kernels = short_kernels(7, 50 * MS)
    recorded = Analysis(profile(tmp_path, **ran(*kernels), gpu_counters=stretches(kernels, RATES, 50 * MS)))
    gpu_work = work(recorded, None)
    by_site, each = counts_of_sites(recorded, gpu_work), counts(recorded)
    sums = np.bincount(gpu_work.executions["site"], each.values["dram-read-bytes"], len(gpu_work.sites))
    assert by_site.values["dram-read-bytes"].tolist() == pytest.approx(sums.tolist(), abs=len(kernels))
    assert by_site.remainder.equals(each.remainder)


# Damage


def test_a_profile_without_counters_has_none(tmp_path: Path) -> None:
    recorded = profile(tmp_path, **ran(kernel(1, 0, MS)))
    assert counted(recorded).equals(pl.DataFrame(schema=FRAME))


def test_counters_without_kernels_are_nobody_s(tmp_path: Path) -> None:
    recorded = profile(tmp_path, gpu_counters=stretches([], {IDLE: 3.0}, 5 * MS))
    assert counted(recorded).rows() == [(None, "dram-read-bytes", 15_000_000, 0, True)]


DAMAGED: dict[str, list[dict[str, Any]]] = {
    "no length": [{"begin_ns": 3 * MS, "end_ns": 3 * MS, "value": 1000}],
    "backwards": [{"begin_ns": 4 * MS, "end_ns": 2 * MS, "value": 1000}],
    "twice": [{"begin_ns": 3 * MS, "end_ns": 4 * MS, "value": 1000}] * 2,
    "overlapping": [{"begin_ns": at * MS // 3, "end_ns": at * MS // 3 + 5 * MS, "value": 1000 + at} for at in range(40)],
    "within": [{"begin_ns": 0, "end_ns": 50 * MS, "value": 12345}],
    "late": [{"begin_ns": (1 << 64) - 2, "end_ns": (1 << 64) - 1, "value": 1}, {"begin_ns": 0, "end_ns": (1 << 64) - 1, "value": 5}],
    "nothing": [{"begin_ns": 3 * MS, "end_ns": 4 * MS, "value": 0}],
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_stretches_lose_nothing(tmp_path: Path, damage: str) -> None:
    kernels = [kernel(1, at * MS, at * MS + 700_000, name) for at, name in enumerate([*RATES] * 3)]
    rows = stretches(kernels, RATES, 15 * MS)
    del rows[6]
    rows += [{"device": GPU, "metric": "dram-read-bytes", **row} for row in DAMAGED[damage]]
    recorded = profile(tmp_path, **ran(*kernels), gpu_counters=rows)
    assert divided(recorded) == whole(recorded)
    assert of_kernels(recorded, kernels)["norm"] > 0


def test_impossible_values_are_limited(tmp_path: Path) -> None:
    rows = [
        {"device": GPU, "metric": "l2-bytes", "begin_ns": at * MS, "end_ns": (at + 1) * MS, "value": (1 << 64) - 1} for at in range(5000)
    ]
    of = counts(Analysis(profile(tmp_path, **ran(kernel(1, 0, 9 * MS)), gpu_counters=rows)))
    assert 0 < int(of.values["l2-bytes"].sum()) < int(of.remainder["value"].sum()) < 1 << 62


def test_a_kernel_without_an_end_does_no_harm(tmp_path: Path) -> None:
    kernels = [kernel(1, MS, (1 << 64) - 1, "gemm"), kernel(2, 2 * MS, 2 * MS, "norm"), kernel(3, 5 * MS, 4 * MS, "cast")]
    recorded = profile(tmp_path, **ran(*kernels), gpu_counters=stretches([], {IDLE: 9.0}, 10 * MS))
    assert divided(recorded) == whole(recorded)


def test_more_metrics_than_any_device_has_are_nobody_s(tmp_path: Path) -> None:
    rows = [
        {"device": GPU, "metric": f"{number:03}", "begin_ns": 0, "end_ns": 2 * MS, "value": 7} for number in range(2 * MOST_METRICS)
    ] + stretches([], {IDLE: 1.0}, 2 * MS)  # fmt: skip
    recorded = profile(tmp_path, **ran(kernel(1, 0, 2 * MS)), gpu_counters=rows)
    rows_of = counted(recorded)
    assert rows_of.drop_nulls("execution")["metric"].n_unique() == MOST_METRICS
    assert "dram-read-bytes" in rows_of.drop_nulls("execution")["metric"].to_list()
    assert divided(recorded) == whole(recorded)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_unit_is_lost_or_made(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    begins = data.draw(st.lists(st.integers(0, 30 * MS), min_size=1, max_size=15))
    kernels = [
        kernel(1, begin, begin + data.draw(st.integers(0, 9 * MS)), data.draw(st.sampled_from("abc")), stream=number % 3)
        for number, begin in enumerate(begins)
    ]
    rows = [
        {"device": GPU, "metric": metric, "begin_ns": begin, "end_ns": begin + length, "value": value}
        for metric, begin, length, value in data.draw(
            st.lists(
                st.tuples(
                    st.sampled_from(["dram-read-bytes", "sm-cycles", "tensor-cycles", "pcie-read-bytes"]),
                    st.integers(0, 40 * MS), st.integers(0, 3 * MS), st.integers(0, 1 << 40),
                ),
                min_size=1, max_size=30,
            )
        )
    ]  # fmt: skip
    recorded = profile(tmp_path_factory.mktemp("counters"), **ran(*kernels), gpu_counters=rows)
    rows_of = counted(recorded)
    assert divided(recorded) == {metric: value for metric, value in whole(recorded).items() if value}
    assert (rows_of["estimated"] <= rows_of["value"]).all()
