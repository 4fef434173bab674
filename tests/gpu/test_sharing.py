"""Other users of the GPU's profiling interface in the program go on working."""

from __future__ import annotations

import pytest
from gpu_runs import Alone, Recorder


@pytest.mark.parametrize("other", ["torch", "proton"])
@pytest.mark.usefixtures("torch")
def test_another_profiler_sees_what_it_sees_alone(record: Recorder, alone: Alone, other: str) -> None:
    expected = alone("other_profiler.py", other)
    if expected.status:
        pytest.skip(f"{other}'s profiler does not work here by itself")
    run = record("other_profiler.py", other)
    assert run.result == expected, run.run.stderr
    assert "saw kernels: True" in expected.stdout


@pytest.mark.parametrize("other", ["torch", "proton"])
@pytest.mark.usefixtures("torch")
def test_what_ran_before_the_other_profiler_is_recorded(record: Recorder, other: str) -> None:
    run = record("other_profiler.py", other)
    assert run.total("gpu-time", "", "before") > 0


@pytest.mark.usefixtures("torch")
def test_what_ran_after_the_other_profiler_is_recorded_or_a_note_says_that_it_is_not(record: Recorder) -> None:
    run = record("other_profiler.py", "torch")
    assert run.total("gpu-time", "", "after") > 0 or run.profile.store.notes()


@pytest.mark.usefixtures("torch")
def test_of_two_processes_on_a_device_one_is_sampled_and_both_keep_their_kernels(record: Recorder) -> None:
    run = record("beside_another.py")
    assert run.result.status == 0, run.run.stderr
    first, other = map(int, run.result.stdout.split())
    counts = run.kernels().group_by("process").len().sort("process")["len"].to_list()
    assert counts == [first, other]
    assert set(run.samples()["process"]) == {run.kernels()["process"].min()}
    assert any(note.startswith("GPU stalls are recorded of one process a device") for note in run.profile.store.notes())
