"""Counters of a device beside what its kernels are known to have done."""

from __future__ import annotations

import json
from dataclasses import dataclass

import polars as pl
import pytest
from gpu_runs import GpuRun, Recorder

ELEMENTS, SIZE = 1 << 28, 4096
BYTES = {"add": (8 * ELEMENTS, 4 * ELEMENTS), "copy": (4 * ELEMENTS, 4 * ELEMENTS), "total": (4 * ELEMENTS, 0)}
"""Bytes that one call reads and writes: arrays of 1 GiB, twenty times the second-level cache."""


@dataclass(frozen=True, slots=True)
class Part:
    """What was counted while one part of the program ran."""

    turns: int
    nanoseconds: int
    counters: dict[str, int]


@pytest.fixture(scope="module")
def counted(record: Recorder) -> GpuRun:
    run = record("counted.py", "1", options=("--gpu-counters", "on"))
    assert run.result.status == 0, run.run.stderr
    return run


def part(run: GpuRun, name: str) -> Part:
    when = json.loads(run.result.stdout)[name]
    inside = run.profile.table("gpu_counters").filter(pl.col("end_ns") > when["begin_ns"], pl.col("begin_ns") < when["end_ns"])
    values = inside.group_by("metric").agg(pl.col("value").sum())
    lengths = inside.filter(pl.col("metric") == "sm-cycles").select(pl.col("end_ns") - pl.col("begin_ns")).to_series()
    return Part(when["turns"], int(lengths.sum()), dict(values.iter_rows()))


@pytest.mark.parametrize("name", BYTES)
def test_bytes_of_memory_are_those_that_the_kernels_moved(counted: GpuRun, name: str) -> None:
    one, (reads, writes) = part(counted, name), BYTES[name]
    assert one.counters["dram-read-bytes"] == pytest.approx(one.turns * reads, rel=0.02)
    assert one.counters["dram-write-bytes"] == pytest.approx(one.turns * writes, rel=0.02, abs=0.01 * one.turns * reads)


def test_tensor_cores_work_as_much_as_the_multiplications_take(counted: GpuRun) -> None:
    """A dense bfloat16 multiplication takes a multiprocessor of an H100 or H200 1/4096 of a cycle for each multiplication and addition."""
    one = part(counted, "matmul")
    processors = 132
    expected = one.turns * SIZE**3 / (1024 * 4 / 2) / processors / 2
    print(one.counters["tensor-cycles"] / expected, one.counters["tensor-cycles"] / one.counters["sm-cycles"])
    assert one.counters["tensor-cycles"] == pytest.approx(expected, rel=0.03)


def test_an_idle_multiprocessor_counts_nothing(counted: GpuRun) -> None:
    one = part(counted, "tiny")
    assert one.counters["tensor-cycles"] == 0
    assert one.counters["sm-active-cycles"] < 0.05 * one.counters["sm-cycles"]


def test_counting_has_no_gaps(counted: GpuRun) -> None:
    cycles = counted.profile.table("gpu_counters").filter(pl.col("metric") == "sm-cycles").sort("begin_ns")
    gaps = cycles.select(pl.col("begin_ns").shift(-1).cast(pl.Int64) - pl.col("end_ns").cast(pl.Int64)).to_series().drop_nulls()
    assert gaps.min() == 0
    assert (gaps > 0).sum() <= 2
    assert not counted.profile.table("kernels").is_empty()
