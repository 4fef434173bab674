"""A stretch of a timeline that is read alone equals that stretch cut from the whole timeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from timeline_blocks import Read, read
from timelines import LAYERS, OPS, Program

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.timeline import near as timeline_near
from aiflame.attribute.timeline.tables import Timeline
from aiflame.attribute.timeline.whole import timeline
from aiflame.attribute.timeline.windows import TooMuch, Windows
from aiflame.profile.schema.enums import CopyKind, GpuApi, RegionApi, RegionKind, SyncKind
from aiflame.profile.tables.interface import Tables
from aiflame.render.report.timeline_block import timeline_block

MOST = 1_000_000
STEP = 1000
STEPS = 12


@pytest.fixture
def program() -> Program:
    return Program()


@pytest.fixture(autouse=True)
def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets how far from a window kernels overlap each other in these profiles."""
    monkeypatch.setattr(timeline_near, "AROUND_NS", 150)


def windows(profile: Tables) -> Windows:
    return Windows(Analysis(profile))


def alone(asked: Windows, begin: int, end: int) -> Read:
    return read(timeline_block(asked.timeline(begin, end, MOST), window=(begin, end)))


def cut(whole: Timeline, begin: int, end: int) -> Read:
    return read(timeline_block(whole, window=(begin, end)))


def stretches(last: int) -> Iterator[tuple[int, int]]:
    """Short and long ones; within a step, over its end, before and behind all."""
    for length in (1, 7, 90, 400, 2500):
        for begin in range(length, last, last // 6):
            yield begin, begin + length
    yield from ((0, last), (last + 500, last + 900))


def trained(program: Program, seed: int) -> None:
    """Steps of 1000 ns, the fifth followed by a long pause: a thread that launches on two streams, where kernels overlap, a graph that is
    replayed, copies, waits, regions, samples; and a thread and a stream with work in a few steps alone."""
    random = np.random.default_rng(seed)
    graph = program.stack("", "layers.0", "mm")
    program.rows("graph_nodes", *({"node": node, "stack": graph, "thread": 1, "time_ns": 5} for node in (91, 92)))
    places = [(layer, op) for layer in LAYERS[1:] for op in OPS]
    for step in range(STEPS):
        at = 100 + STEP * step + (4 * STEP if step > 4 else 0)
        bring = program.launch(at, at + 8)
        copied = {"kind": CopyKind.HOST_TO_DEVICE, "device": "GPU [0]", "api": GpuApi.CUDA, "stream": 7, "bytes": 64 + step}
        program.rows("copies", {**copied, "correlation": bring, "start_ns": at + 10, "end_ns": at + 30})
        for number in range(12):
            begin = at + 40 + 30 * number
            layer, op = places[(number // 3 + seed) % len(places)]
            called = program.launch(begin, begin + int(random.integers(2, 20)), "", layer, op)
            start = begin + int(random.integers(0, 120))
            for name in ("gemm", "reduce")[: 1 + number % 5 // 4]:
                length = int(random.integers(1, 70))
                program.kernel(called, start, start + length, f"{name}_{number % 4}", stream=7 + number % 2)
                start += length
        if step in (2, 3, 9):
            called = program.launch(at + 450, at + 460, "", "layers.1", "add", thread=2)
            program.kernel(called, at + 470, at + 600, "side", stream=20, device="GPU [1]")
        replay = program.launch(at + 600, at + 620)
        for node, begin in ((91, 640), (92, 700)):
            program.kernel(replay, at + begin, at + begin + 50, f"captured_{node}", node=node)
        waits = program.launch(at + 650, at + 800)
        wait = {"kind": SyncKind.STREAM, "api": GpuApi.CUDA, "start_ns": at + 655, "end_ns": at + 790}
        program.rows("syncs", {**wait, "correlation": waits}, {**wait, "correlation": 10_000 + step, "kind": SyncKind.EVENT})
        ours = {"name": "optimizer", "domain": "aiflame", "api": RegionApi.AUTOMATIC, "kind": RegionKind.NESTED, "thread": 1, "payload": 64}
        free = {"name": f"prefetch {step}", "domain": "data", "api": RegionApi.NVTX, "kind": RegionKind.FREE, "thread": 1}
        program.rows("regions", {**ours, "begin_ns": at + 810}, {**free, "begin_ns": at + 820})
        program.kernel(program.launch(at + 815, at + 825), at + 830, at + 850, "adam")
        ends = ((2 * step + 1, at + 880), (2 * step + 2, at + STEP + 100))  # the second ends within the next step's
        program.rows("region_ends", *({"region": region, "thread": 1, "end_ns": end} for region, end in ends))
        for moment in range(at, at + STEP, 10 if step % 2 else 90):
            sampled(program, moment, graph)


def sampled(program: Program, moment: int, stack: int, **columns: object) -> None:
    row = {"thread": 1, "weight": 1, "period_ns": 10, "time_ns": moment, "stack": stack, **columns}
    program.rows("cpu_samples", row)


@pytest.mark.parametrize("seed", range(2))
def test_a_stretch_read_alone_is_the_whole_cut(tmp_path: Path, program: Program, seed: int) -> None:
    trained(program, seed)
    profile = program.profile(tmp_path)
    asked, whole = windows(profile), timeline(profile)
    last = profile.scan("kernels").select(pl.col("end_ns").max()).collect().item()
    seen = set[str]()
    for begin, end in stretches(last):
        stretch = alone(asked, begin, end)
        assert stretch.slices() == cut(whole, begin, end).slices(), f"{begin} to {end}"
        seen |= {kind for *_, kind, _, _, _, _ in stretch.slices()}
    assert seen >= {"STEP", "PHASE", "LAYER", "OP", "CALL", "WAIT", "KERNEL", "COPY", "REGION", "FUNCTION"}


def test_a_stretch_made_of_samples_alone_equals_the_whole_cut(tmp_path: Path, program: Program) -> None:
    stacks = [program.stack("", layer, op) for layer, op in (("layers.0", "mm"), ("layers.0.attn", "add"), ("layers.1", "relu"))]
    moments = np.cumsum(np.random.default_rng(5).choice([10, 11, 40, 300, 2000], 300, p=[0.5, 0.3, 0.1, 0.08, 0.02])).tolist()
    for number, moment in enumerate(moments):
        sampled(program, moment, stacks[number // 9 % 3], thread=1 + number // 40 % 2)
    profile = program.profile(tmp_path)
    asked, whole = windows(profile), timeline(profile)
    seen = set[str]()
    for begin, end in stretches(moments[-1]):
        stretch = alone(asked, begin, end)
        assert stretch.slices() == cut(whole, begin, end).slices(), f"{begin} to {end}"
        seen |= {kind for *_, kind, _, _, _, _ in stretch.slices()}
    assert seen >= {"LAYER", "OP", "FUNCTION"}


def test_a_kernel_knows_its_launch_however_long_ago_that_was(tmp_path: Path, program: Program) -> None:
    called = program.launch(10, 12, "", "layers.0", "mm")
    for number in range(50):
        program.kernel(program.launch(1000 * number + 20, 1000 * number + 22), 1000 * number + 30, 1000 * number + 40, "other", stream=8)
    program.kernel(called, 45_000, 45_010, "late")
    (late,) = (row for row in alone(windows(program.profile(tmp_path)), 44_990, 45_005).slices() if row[5] == "late")
    *_, facts, _, delay = late
    assert (facts["layer"], delay) == ("layers.0", 45_000 - 10 + 1)


def test_a_call_names_its_kernels_however_much_later_they_ran(tmp_path: Path, program: Program) -> None:
    called = program.launch(10, 12)
    for number in range(3):
        program.kernel(called, 45_000 + 10 * number, 45_005 + 10 * number, f"late_{number}")
    (call,) = alone(windows(program.profile(tmp_path)), 0, 20).slices()
    assert call[6]["records"] == 3
    assert call[6]["ran"] == "late_0"


def test_more_than_was_allowed_is_refused(tmp_path: Path, program: Program) -> None:
    for number in range(20):
        program.kernel(program.launch(1000 * number, 1000 * number + 5), 1000 * number + 10, 1000 * number + 20)
    asked = windows(program.profile(tmp_path))
    assert len(asked.timeline(0, 5000, 10).slices.filter(kind=7)) >= 5
    with pytest.raises(TooMuch, match="40 records are in this stretch"):
        asked.timeline(0, 20_000, 39)


def test_a_profile_without_anything_has_empty_stretches(tmp_path: Path, program: Program) -> None:
    assert alone(windows(program.profile(tmp_path)), 5, 50).slices() == []
