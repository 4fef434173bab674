"""Kernels that run for known times, from known places."""

from __future__ import annotations

import json

import pytest
from gpu_runs import MILLISECOND, GpuRun, Recorder, appear_in_order

from aiflame.profile.schema.enums import CopyKind

SECONDS = "1.5"
OFTEN = ("--gpu-sampling", str(1 << 20))
"""Cycles. By itself a GPU of this size is looked at every four milliseconds, everywhere in the same moment: for a program of a second or
two, that gives a share to within five or ten percent."""


@pytest.fixture
def split(record: Recorder) -> GpuRun:
    run = record("split.py", SECONDS, options=OFTEN)
    assert run.result.status == 0, run.run.stderr
    return run


def test_gpu_time_splits_as_the_kernels_were_called(split: GpuRun) -> None:
    launched = json.loads(split.result.stdout)
    truth = 3 * launched["a"] / (3 * launched["a"] + launched["b"])
    a, b = split.total("gpu-time", "spin", "a"), split.total("gpu-time", "spin", "b")
    assert a / (a + b) == pytest.approx(truth, abs=0.01)
    assert a == pytest.approx(launched["a"] * 3 * MILLISECOND, rel=0.02)


def test_stall_samples_split_as_the_kernels_were_called(split: GpuRun) -> None:
    launched = json.loads(split.result.stdout)
    truth = 3 * launched["a"] / (3 * launched["a"] + launched["b"])
    a, b = split.total("gpu-stalls", "spin", "a"), split.total("gpu-stalls", "spin", "b")
    assert a / (a + b) == pytest.approx(truth, abs=0.03)


def test_equal_kernels_have_equal_samples_a_millisecond(split: GpuRun) -> None:
    rates = [split.total("gpu-stalls", name) / split.total("gpu-time", name) for name in ("spin_one", "spin_two")]
    assert rates[0] == pytest.approx(rates[1], rel=0.05)


def test_every_kernel_hangs_under_the_function_that_launched_it(split: GpuRun) -> None:
    launched = json.loads(split.result.stdout)
    assert len(split.kernels()) == launched["a"] + launched["b"] + 2 * launched["equal"]
    stacks = {stack: value for stack, value in split.stacks("gpu-time").items() if "-" in stack}
    placed = sum(value for stack, value in stacks.items() if appear_in_order(stack, "main", "-"))
    assert placed >= 0.995 * sum(stacks.values())


def test_stacks_begin_in_the_function_of_the_driver_that_was_called(split: GpuRun) -> None:
    inside = [stack for stack in split.stacks("gpu-time") if any("libcupti" in frame or "libcuda.so" in frame for frame in stack)]
    assert not inside  # the function called has a name


def test_a_replayed_kernel_hangs_under_its_capture_under_its_replay(record: Recorder) -> None:
    run = record("graph.py", "50")
    assert run.result.status == 0, run.run.stderr
    stacks = {stack: value for stack, value in run.stacks("gpu-time").items() if "-" in stack}
    total = sum(stacks.values())
    places = {
        name: sum(value for stack, value in stacks.items() if appear_in_order(stack, "main", "d", "[graph replay]", "c", name, "-", "spin"))
        for name in ("first", "second")
    }
    assert sum(places.values()) >= 0.995 * total
    assert places["first"] / total == pytest.approx(2 / 3, abs=0.01)
    assert total == pytest.approx(50 * 3 * MILLISECOND, rel=0.05)


# CUPTI names no launch for kernels in the body of a condition.
@pytest.mark.parametrize(("way", "around"), [("child", ("main", "d", "[graph replay]")), ("if", ("[graph replay]",))])
def test_a_graph_within_a_graph_leads_to_its_capture(record: Recorder, way: str, around: tuple[str, ...]) -> None:
    run = record("graph_nested.py", way, "50")
    assert run.result.status == 0, run.run.stderr
    stacks = {stack: value for stack, value in run.stacks("gpu-time").items() if "-" in stack}
    total = sum(stacks.values())
    places = {
        name: sum(value for stack, value in stacks.items() if appear_in_order(stack, *around, "c", name, "-", "spin"))
        for name in ("first", "second")
    }
    assert total == pytest.approx(50 * 3 * MILLISECOND, rel=0.05)
    assert sum(places.values()) >= 0.995 * total
    assert places["first"] / total == pytest.approx(2 / 3, abs=0.01)


def test_copies_and_fills_have_their_bytes(record: Recorder) -> None:
    run = record("copies.py")
    assert run.result.stdout == "True\n", run.run.stderr
    copies = run.profile.table("copies")
    by_kind = {CopyKind(kind): (len(rows), int(rows["bytes"].sum())) for (kind,), rows in copies.group_by("kind")}
    assert by_kind == {
        CopyKind.HOST_TO_DEVICE: (10, 10 * (3 << 20)),
        CopyKind.DEVICE_TO_DEVICE: (10, 10 * (2 << 20)),
        CopyKind.DEVICE_TO_HOST: (10, 10 * (1 << 20)),
        CopyKind.FILL: (10, 10 * (512 << 10)),
    }


@pytest.mark.parametrize("way", ["together", "apart"])
@pytest.mark.usefixtures("two_devices")
def test_each_device_has_its_own_time(record: Recorder, way: str) -> None:
    run = record("several.py", way)
    assert run.result.status == 0, run.run.stderr
    kernels = run.kernels()
    took = sorted(int((rows["end_ns"] - rows["start_ns"]).sum()) for _, rows in kernels.group_by("device", "process"))
    assert took == pytest.approx([50 * MILLISECOND, 100 * MILLISECOND], rel=0.05)
    assert kernels["device"].n_unique() == 2
    assert kernels["process"].n_unique() == (1 if way == "together" else 2)
