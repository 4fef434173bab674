"""Instrumented launches on a machine without a device: which launches are recorded, the records, and the launches left alone."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")

import intra_add  # noqa: E402
from intra_program import Program  # noqa: E402


def test_launches_one_two_four_and_so_on_run_the_twin(program: Program) -> None:
    program.record()
    assert program.launch(times=9) == [number in (1, 2, 4, 8) for number in range(1, 10)]
    captures = program.end()
    (kernel,) = captures.kernels.values()
    assert kernel.name == "add" and [scope.name for scope in kernel.scopes] == ["kernel"]
    assert [launch.number for launch in captures.launches] == [1, 2, 4, 8]
    assert {(launch.grid, launch.ctas, launch.dropped_launches) for launch in captures.launches} == {((4, 1, 1), 4, 0)}
    words = [launch.data.view(np.uint32)[: kernel.scratch_bytes] for launch in captures.launches]
    assert all(one[0] == 0xDEADBEEF and one[1] == 0 for one in words)


def test_every_nth_launch_is_taken_until_there_are_enough(program: Program) -> None:
    program.record(every=3, launches=4)
    assert [number for number, timed in enumerate(program.launch(times=12), 1) if timed] == [1, 2, 3, 4]


def test_the_programs_stream_is_given_an_event_and_nothing_else(program: Program) -> None:
    program.record()
    program.launch()
    touching = {"cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuStreamWaitEvent"}
    assert [call for call in program.cuda.calls if call in touching] == ["cuStreamSynchronize", "cuStreamWaitEvent"]
    assert "cuMemcpyDtoHAsync_v2" in program.cuda.calls


def test_a_further_recording_counts_anew_and_takes_no_more_memory(program: Program) -> None:
    program.record(every=1, launches=2)
    program.cuda.copied = False
    assert program.launch(times=3) == [True, True, False]
    program.record(every=1, launches=2)
    program.cuda.copied = True
    assert program.launch(times=3) == [True, True, False]
    assert program.cuda.calls.count("cuMemAlloc_v2") == 2
    assert len(program.end().launches) == 4


def test_a_launch_into_a_graph_is_a_launch_of_the_kernel_itself(program: Program) -> None:
    program.record(every=1)
    program.launch()
    program.cuda.capturing = True
    assert program.launch(times=3) == [False] * 3
    program.cuda.capturing = False
    assert program.launch() == [True]
    assert program.end().launches[-1].dropped_launches == 3


def test_nobody_waits_for_a_thread_that_compiles_a_twin(program: Program) -> None:
    program.record()
    assert program.session is not None
    with ThreadPoolExecutor(1) as elsewhere, program.session._lock:
        assert elsewhere.submit(program.launch).result(30) == [False]
    assert program.launch() == [True]
    (launch,) = program.end().launches
    assert launch.dropped_launches == 1


def test_no_call_can_spoil_a_capture_of_another_thread(program: Program) -> None:
    """Between the two exchanges of the thread's mode nothing is forbidden to it."""
    program.record()
    program.launch()
    calls = program.cuda.calls
    exchanges = [at for at, call in enumerate(calls) if call == "cuThreadExchangeStreamCaptureMode"]
    for careful in ("cuMemAlloc_v2", "cuMemHostAlloc", "cuStreamSynchronize", "cuEventQuery"):
        for at in [at for at, call in enumerate(calls) if call == careful]:
            assert sum(one < at for one in exchanges) % 2 == 1, careful


def test_a_driver_that_fails_is_no_matter_of_the_programs(program: Program) -> None:
    program.record(every=1)
    program.cuda.failing = "cuEventRecord"
    assert program.launch(times=2) == [True, True], "the launch was made; its records are lost"
    program.cuda.failing = "cuStreamIsCapturing"
    assert program.launch() == [False], "where the driver does not say, a graph may be captured"
    assert any("cuEventRecord" in note for note in program.notes)


def test_disk_is_bounded(program: Program) -> None:
    program.record(every=1, disk=10_000)
    program.launch(times=20)
    assert sum(len(launch.data) for launch in program.end().launches) <= 10_000
    assert any("limit" in note for note in program.notes)


def test_an_autotuner_measures_kernels_as_they_are(program: Program) -> None:
    configs = [triton.Config({"BLOCK": block}) for block in (512, 1024)]
    measured: list[str] = []

    def bench(call: Any, quantiles: Any = None) -> list[float]:
        before = len(program.driver.launched)
        call()
        measured.extend(program.driver.launched[before:])
        return [1.0, 1.0, 1.0]

    tuned = triton.autotune(configs, key=["n"], do_bench=bench)(intra_add.add)
    program.record(every=1)
    tuned[(4,)](program.x, program.y, 4096)
    assert measured == ["", ""]
    assert program.driver.launched[-1].startswith("aiflame_")
    assert [launch.number for launch in program.end().launches] == [1], "launches of the autotuner's are not counted"


def test_only_kernels_that_are_named_are_taken(program: Program) -> None:
    program.record(kernels="other$")
    assert program.launch() + program.launch(intra_add.add_other) == [False, True]


def test_without_a_session_nothing_happens(program: Program) -> None:
    program.record()
    program.launch()
    program.end()
    assert program.launch(times=4) == [False] * 4


def test_another_allocator_of_profile_memory_is_put_back(program: Program) -> None:
    holder = triton.runtime._allocation._profile_allocator
    theirs = object()
    before = holder.get()
    holder.set(theirs)
    program.record()
    assert program.launch() == [True]
    assert holder.get() is theirs
    holder.set(before)


def test_the_docs_example_of_a_pass_works_as_it_stands(program: Program, tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "intra.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len([line for line in example.splitlines() if line.strip()]) <= 20
    mine = tmp_path / "mine.py"
    mine.write_text(example)
    program.record(passes=(), files=(str(mine),))
    assert program.launch(intra_add.exponentials) == [True]
    (kernel,) = program.end().kernels.values()
    assert [(scope.name, scope.line) for scope in kernel.scopes] == [("x to y", 61), ("exp y", 63)]
