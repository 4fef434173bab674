"""However a program with CUDA ends, it ends as it does alone, and the profile opens."""

from __future__ import annotations

import pytest
from gpu_runs import Alone, GpuRun, Recorder

KERNELS = 100


def ended_as_alone(record: Recorder, alone: Alone, way: str) -> GpuRun:
    run = record("endings.py", way)
    expected = alone("endings.py", way)
    status = expected.status if expected.status >= 0 else 128 - expected.status  # a shell's code for a signal
    assert run.result.stdout == expected.stdout
    assert run.result.status in (expected.status, status), run.run.stderr
    return run


@pytest.mark.parametrize(
    ("way", "kernels"),
    [
        ("usual", KERNELS),
        ("exit_at_once", KERNELS),
        ("aborted", 0),
        ("fork_after", 2 * KERNELS),
        ("exec_after", KERNELS),
        ("context_destroyed", 3 * KERNELS),
        ("two_contexts", 3 * KERNELS),
        ("from_threads", 4 * KERNELS),
    ],
)
def test_the_program_ends_as_it_does_alone_and_its_kernels_are_there(record: Recorder, alone: Alone, way: str, kernels: int) -> None:
    run = ended_as_alone(record, alone, way)
    assert len(run.profile.table("launches")) >= kernels
    assert len(run.kernels()) >= kernels


@pytest.mark.parametrize("way", ["killed", "exit_with_kernels_running"])
def test_what_was_written_before_a_sudden_end_is_kept(record: Recorder, alone: Alone, way: str) -> None:
    run = ended_as_alone(record, alone, way)
    assert len(run.profile.table("launches")) >= KERNELS


def test_kernels_of_threads_hang_under_their_threads(record: Recorder) -> None:
    run = record("endings.py", "from_threads")
    threads = {stack[:2] for stack in run.stacks("gpu-time") if "from_threads.<locals>.in_a_thread" in stack and "spin" in stack}
    assert len(threads) == 4


def test_samples_of_a_destroyed_context_are_kept(record: Recorder) -> None:
    run = record("endings.py", "context_destroyed")
    assert run.profile.table("gpu_windows")["samples"].sum() > 0
