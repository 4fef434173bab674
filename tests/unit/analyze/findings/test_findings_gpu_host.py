"""Causes between the host and a GPU: copies, launches, allocations, compilers, optimizers, streams, clocks; each with a near miss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from stories import LOOP, MAIN, US, Story, train
from story_findings import found
from telemetries import MS, told

from aiflame.analyze.findings.advice import fix
from aiflame.attribute.tree import GPU_TIME
from aiflame.profile.schema.enums import SyncKind

TORCH = "/env/site-packages/torch/"
EMPTY_CACHE = ("empty_cache", TORCH + "cuda/memory.py", 9)
COMPILE = ("_compile", TORCH + "_dynamo/convert_frame.py", 9)
TUNE = ("Autotuner._bench", "/env/site-packages/triton/runtime/autotuner.py", 9)
SPECIALIZE = ("compile", "/env/site-packages/triton/compiler/compiler.py", 9)
INNER = ("forward", "/app/model.py", 7)


# Copies


def copied(
    story: Story, rate: float, *, times: int = 25, blocks: bool = True, size: int = 10_000_000, kind: str = "HOST_TO_DEVICE"
) -> None:
    """Copies at so many GB/s, one after another, each followed by a kernel as long."""
    took = size / rate / 1000
    for number in range(times):
        begin = 10 * took * number
        story.work(begin, begin, begin + took, LOOP, name=kind)
        story.copies[-1]["bytes"] = size
        if blocks:
            story.tables["launches"][-1]["end_ns"] = round((begin + took - 1) * US)
        story.work(begin + took, begin + took, begin + 10 * took, MAIN)


@pytest.mark.parametrize("kind", ["HOST_TO_DEVICE", "DEVICE_TO_HOST"])
def test_copies_of_pageable_memory_are_slow_and_hold_their_call_up(tmp_path: Path, kind: str) -> None:
    story = Story()
    copied(story, 5, kind=kind)
    findings = found(story, tmp_path)
    finding = findings["pageable-copies"]
    name = "[copy host→device]" if kind == "HOST_TO_DEVICE" else "[copy device→host]"
    assert finding.sentence == (
        "The GPU waits 10% of the time (50 ms in all) for copies of pageable memory at train.py:8:"
        f" 25 {name} of 9.54 MiB each, at 5.0 GB/s where pinned memory allows 50"
    )
    assert "pin_memory" in fix(finding)
    assert "copies" not in findings


@pytest.mark.parametrize(
    "copy",
    [{"rate": 45}, {"blocks": False}, {"times": 19}, {"size": 50_000}, {"kind": "DEVICE_TO_DEVICE"}],
    ids=["as fast as pinned", "the call returns at once", "few", "small", "on the device"],
)  # fmt: skip
def test_other_copies_are_not_called_pageable(tmp_path: Path, copy: dict[str, Any]) -> None:
    story = Story()
    copied(story, **{"rate": 5, **copy})
    findings = found(story, tmp_path)
    assert "pageable-copies" not in findings
    assert "torch.cuda.Stream()" in fix(findings["copies"])


@pytest.mark.parametrize(("kernels", "awaited"), [(10, False), (8, True)])
def test_kernels_wait_for_a_copy_only_where_none_runs_at_its_end(tmp_path: Path, kernels: int, awaited: bool) -> None:
    """Each copy lies in the gaps between kernels, 30 of 100 us, and ends at 950 us: while the tenth kernel runs, or after the eighth."""
    story = Story()
    for number in range(25):
        begin = 1000.0 * number
        for at in range(0, 100 * kernels, 100):
            story.work(begin + at, begin + at, begin + at + 70, MAIN)
        story.work(begin, begin + 20, begin + 950, LOOP, name="HOST_TO_DEVICE")
        story.copies[-1]["bytes"] = 1 << 20
    findings = found(story, tmp_path)
    assert ("copies" in findings) == awaited
    if awaited:
        assert (
            findings["copies"].sentence
            == "The GPU waits for copies 18% of the time: most for [copy host→device] at train.py:8, 25 MiB in all"
        )


# Launches


def test_launches_of_torch_are_compiled_first(tmp_path: Path) -> None:
    story = Story()
    for number in range(200):
        story.layer_work(10 * number, 10 * number + 4, 10 * number + 7, "model", name="vectorized_elementwise_kernel")
    finding = found(story, tmp_path)["launch-bound"]
    assert "torch.compile()" in fix(finding)
    assert finding.sentence.endswith("without these gaps it would be 3.3 times as fast at most")


@pytest.mark.parametrize("name", ["triton_poi_fused_add_0", "spin"], ids=["compiled", "not torch's"])
def test_launches_of_a_compiled_program_become_a_graph(tmp_path: Path, name: str) -> None:
    story = Story()
    for number in range(200):
        story.work(10 * number, 10 * number + 4, 10 * number + 7, MAIN, name=name)
    findings = found(story, tmp_path)
    assert "launch-bound" not in findings
    assert "CUDA graph" in fix(findings["launch-bound-graph"])


def test_kernels_of_a_graph_need_more_work_each(tmp_path: Path) -> None:
    story = Story()
    for number in range(200):
        story.work(0, 10 * number + 4, 10 * number + 7, MAIN, node=1 + number)
    assert "batch larger" in fix(found(story, tmp_path)["launch-bound-batch"])


@pytest.mark.parametrize("kind", [SyncKind.CONTEXT, SyncKind.STREAM])
def test_a_wait_for_the_whole_device_differs_from_other_waits(tmp_path: Path, kind: SyncKind) -> None:
    story = Story()
    for number in range(10):
        begin = 1000 * number
        story.work(begin, begin + 10, begin + 700)
        story.waits(begin + 20, begin + 703, LOOP)
        story.tables["syncs"][-1]["kind"] = int(kind)
        story.work(begin + 800, begin + 902, begin + 1010)
    findings = found(story, tmp_path)
    named = "device-synchronize" if kind == SyncKind.CONTEXT else "idle-sync"
    assert {"device-synchronize", "idle-sync"} & findings.keys() == {named}
    assert ("Remove torch.cuda.synchronize()" in fix(findings[named])) == (kind == SyncKind.CONTEXT)


# Calls in steps


def called(story: Story, *frames: Any, samples: int = 120, clock: int = 0, of: int = 2000, until: int = 0) -> None:
    """Samples of 5 ms, spread over so many ms or over those before `until`; a kernel runs at the begin and at the end."""
    story.work(0, 0, 1000, MAIN)
    for number in range(samples):
        story.met(2000 + 990 * (until or of) * number / samples, MAIN, INNER, *frames, clock=clock)
    story.work(1000 * of, 1000 * of, 1000 * of + 1000, MAIN)


@pytest.mark.parametrize(
    ("kind", "frames", "doing"),
    [
        ("allocator", [EMPTY_CACHE], "takes GPU memory from the driver and gives it back"),
        ("recompiling", [COMPILE, TUNE, SPECIALIZE], "compiles"),
        ("autotuning", [TUNE, SPECIALIZE], "tries out variants of kernels"),
        ("specializing", [SPECIALIZE], "compiles specializations of Triton kernels"),
    ],
)
@pytest.mark.parametrize("clock", [0, 1])
def test_calls_that_belong_before_the_steps(tmp_path: Path, kind: str, frames: list[Any], doing: str, clock: int) -> None:
    story = Story()
    called(story, *frames, clock=clock)
    finding = found(story, tmp_path)[kind]
    assert finding.sentence == f"In 30% of the time the program {doing} at model.py:7 (120 samples)"
    assert finding.view.place == "/app/model.py:7"


@pytest.mark.parametrize("native", [True, False])
def test_the_drivers_allocator_is_known_by_its_library(tmp_path: Path, native: bool) -> None:
    story = Story()
    called(story, "cudaFree")
    next(row for row in story.tables["symbols"] if row["name"] == "cudaFree")["module"] = "libcudart.so.13" if native else "libmine.so"
    assert ("allocator" in found(story, tmp_path)) == native


@pytest.mark.parametrize(
    ("frames", "samples", "of"),
    [([EMPTY_CACHE], 99, 2000), ([EMPTY_CACHE], 120, 15_000), ([("empty_cache", "/app/cuda/memory.py", 9)], 120, 2000)],
    ids=["99 samples", "4%", "a function of the program's own"],
)
def test_calls_that_cost_little_or_are_something_else(tmp_path: Path, frames: list[Any], samples: int, of: int) -> None:
    story = Story()
    called(story, *frames, samples=samples, of=of)
    assert "allocator" not in found(story, tmp_path)


def test_launching_a_compiled_triton_kernel_compiles_nothing(tmp_path: Path) -> None:
    story = Story()
    called(story, ("CompiledKernel.launch_metadata", SPECIALIZE[1], 479))
    assert "specializing" not in found(story, tmp_path)


@pytest.mark.parametrize(("until", "named"), [(1000, False), (1300, True)])
@pytest.mark.parametrize(("kind", "frame"), [("recompiling", COMPILE), ("autotuning", TUNE), ("specializing", SPECIALIZE)])
def test_compiling_once_at_the_start_of_a_program_without_steps_is_usual(
    tmp_path: Path, kind: str, frame: Any, until: int, named: bool
) -> None:
    """Of 2,000 ms a fault goes on in the second half, for at least 5% of it."""
    story = Story()
    called(story, frame, until=until)
    assert (kind in found(story, tmp_path)) == named


def test_compiling_before_the_first_step_is_over_is_usual(tmp_path: Path) -> None:
    for compiled in (0, 3):
        story = Story()
        for number in range(6):
            begin = 500_000.0 * number
            story.layer_work(begin + 1, begin + 1, begin + 2, "model")
            if number == compiled:
                for sample in range(100):
                    story.met(begin + 3 + 4000 * sample, MAIN, COMPILE, clock=0)
            story.now = round((begin + 450_000) * US)
            story.backward()
            story.during("optimizer", begin + 460_000, begin + 460_002)
        assert ("recompiling" in found(story, tmp_path / str(compiled))) == (compiled == 3)


def test_the_argument_that_changes_is_named(tmp_path: Path) -> None:
    story = Story()
    called(story, SPECIALIZE)
    details = [
        {"file": "/app/k.py", "line": 3, "constexprs": {"by": number, "BLOCK": 1024}, "signature": {"x": "*fp32"}} for number in range(5)
    ]
    story.tables["kernel_variants"] = [{"name": "shift", "readable": "shift", "details": json.dumps(one)} for one in details]
    sentence = found(story, tmp_path)["specializing"].sentence
    assert sentence.endswith("; shift has 5 specializations, which differ in by")


# The optimizer


def optimized(story: Story, name: str, kernels: int) -> None:
    """Five steps: a kernel of 100 µs, and the optimizer's of 2 µs each."""
    begin = 0.0
    for _ in range(5):
        story.layer_work(begin, begin, begin + 100, "model")
        story.now = round((begin + 1) * US)
        story.backward()
        story.kernels[-1] |= {"start_ns": round((begin + 100) * US), "end_ns": round((begin + 110) * US)}
        now = begin + 120
        with story.region("optimizer", 0xA):
            for _ in range(kernels):
                frame = ("Adam.step", TORCH + "optim/adam.py")
                story.work(now, now, now + 2, MAIN, frame, name=name)
                now += 4
        story.tables["regions"][-1]["begin_ns"] = round((begin + 115) * US)
        story.tables["region_ends"][-1]["end_ns"] = round(now * US)
        begin = now + 10


def test_an_optimizer_with_kernels_for_each_parameter(tmp_path: Path) -> None:
    story = Story()
    optimized(story, "vectorized_elementwise_kernel", 60)
    finding = found(story, tmp_path)["unfused-optimizer"]
    assert finding.sentence.endswith("it launches 60 kernels of 2 µs a step, each for one parameter at train.py:12")
    assert "fused=True" in fix(finding)


@pytest.mark.parametrize(("name", "kernels"), [("multi_tensor_apply_kernel", 60), ("vectorized_elementwise_kernel", 40)])
def test_an_optimizer_that_is_fused_or_small(tmp_path: Path, name: str, kernels: int) -> None:
    story = Story()
    optimized(story, name, kernels)
    assert "unfused-optimizer" not in found(story, tmp_path)


# Streams


@pytest.mark.parametrize(
    ("blocks", "apart", "streams", "named"), [(8, 100, 4, True), (8, 50, 4, False), (100, 100, 4, False), (8, 100, 1, False)]
)
def test_streams_that_never_overlap(tmp_path: Path, blocks: int, apart: float, streams: int, named: bool) -> None:
    story = Story()
    for number in range(100):
        begin = apart * number
        story.work(0, begin, begin + 100, MAIN, stream=1 + number % streams, grid_x=blocks, grid_y=1, grid_z=1, block_x=64)
    findings = found(story, tmp_path)
    assert ("serial-streams" in findings) == named
    if named:
        assert findings["serial-streams"].sentence.startswith("4 streams run one after another")


# Clocks


@pytest.mark.parametrize(
    ("clock", "power", "heat", "kind"),
    [
        (1500, 690, 70, "slow-clocks-power"),
        (1500, 690, 85, "slow-clocks-heat"),
        (1950, 690, 85, ""),
        (1500, 0, 70, ""),
    ],
)
def test_a_clock_that_power_or_heat_holds_back(tmp_path: Path, clock: float, power: float, heat: float, kind: str) -> None:
    """Two seconds of rest at full clock, then two of work."""
    story = Story()
    for number in range(20):
        story.work(2_000_000 + 100_000 * number, 2_000_000 + 100_000 * number, 2_100_000 + 100_000 * number, MAIN)
    times = [50 * MS * number for number in range(80)]
    at_work = [time >= 2000 * MS for time in times]
    name = "NVIDIA H200 [0]"
    telemetry = told(
        ("nvidia", name, "SM clock", "MHz", {time: clock if busy else 1980 for time, busy in zip(times, at_work, strict=True)}),
        ("nvidia", name, "power", "W", {time: power if busy else 100 for time, busy in zip(times, at_work, strict=True)}),
        ("nvidia", name, "temperature", "°C", {time: heat if busy else 40 for time, busy in zip(times, at_work, strict=True)}),
    )
    story.tables |= telemetry
    findings = found(story, tmp_path)
    assert {one for one in findings if one.startswith("slow-clocks")} == ({kind} if kind else set())
    if kind:
        assert "runs at 1,500 MHz, 24% below the 1,980 MHz" in findings[kind].sentence


def test_evidence_of_a_call_is_the_metric_that_sampled_it(tmp_path: Path) -> None:
    story = Story()
    called(story, EMPTY_CACHE, clock=1)
    assert found(story, tmp_path)["allocator"].view.metric not in ("", GPU_TIME.name)


def test_a_story_without_faults_has_no_causes(tmp_path: Path) -> None:
    story = Story()
    for number in range(25):
        train(story, number, work=980, idle=20)
    assert {one for one in found(story, tmp_path) if one not in ("hot-group", "hot-stall")} == set()


def test_clocks_of_a_device_that_the_program_does_not_use(tmp_path: Path) -> None:
    """The second device goes to rest while the first one works at its full clock."""
    story = Story()
    for number in range(20):
        story.work(2_000_000 + 100_000 * number, 2_000_000 + 100_000 * number, 2_100_000 + 100_000 * number, MAIN)
    times = [50 * MS * number for number in range(80)]
    story.tables |= told(
        ("nvidia", "NVIDIA H200 [0]", "SM clock", "MHz", dict.fromkeys(times, 1980)),
        ("nvidia", "NVIDIA H200 [1]", "SM clock", "MHz", {time: 1980 if time < 500 * MS else 345 for time in times}),
        ("nvidia", "NVIDIA H200 [1]", "power", "W", dict.fromkeys(times, 75)),
        ("nvidia", "NVIDIA H200 [1]", "temperature", "°C", dict.fromkeys(times, 35)),
    )
    assert not [one for one in found(story, tmp_path) if one.startswith("slow-clocks")]
