"""A program that forbids itself system calls is not killed for ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from live import Outcome, plain, processes, recorded

from built import built

NOTE = "recording ends where the program enters a sandbox (seccomp)"


@pytest.fixture(scope="module")
def program() -> Path:
    return built("programs/sandboxes")


@pytest.mark.parametrize("wall_rate", [0, 499])
@pytest.mark.parametrize("way", ["strict", "filter", "syscall"])
def test_a_program_lives_on_in_its_sandbox_and_is_recorded_up_to_there(
    program: Path, alone: Callable[..., Outcome], tmp_path: Path, way: str, wall_rate: int
) -> None:
    outcome = recorded([program, way], tmp_path / "p", wall_rate=wall_rate)
    assert outcome == alone(program, way)
    assert (outcome.status, outcome.stdout) == (0, "done\n")
    (process,) = processes(tmp_path / "p")
    assert process.table("notes")["text"].to_list() == [NOTE]
    (end,) = process.table("process_ends")["end_ns"]
    samples = process.table("cpu_samples")
    assert samples["weight"].sum() > 100
    assert samples["time_ns"].max() <= end


def test_asking_for_filters_ends_no_recording(program: Path, tmp_path: Path) -> None:
    outcome = recorded([program, "probe"], tmp_path / "p")
    assert (outcome.status, outcome.stdout) == (0, "done\n")
    (process,) = processes(tmp_path / "p")
    assert NOTE not in process.table("notes")["text"].to_list()


def test_every_other_call_comes_through_unchanged(program: Path, tmp_path: Path) -> None:
    assert recorded([program, "arguments"], tmp_path / "p").stdout == plain([program, "arguments"], tmp_path).stdout == "whole\n"
