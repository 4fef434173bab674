"""Ticks need little of a thread's stack, and never take another stack for the thread's own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from live import Process, processes, recorded

from built import built

LIBRARIES = 4


@pytest.fixture(scope="module")
def scenes() -> Path:
    return built("programs/stack_scenes")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Copies of one library: each is a file that the collector has not met."""
    folder = tmp_path_factory.mktemp("libraries")
    original = built("programs/libstack_library.so")
    return [Path(shutil.copy(original, folder / f"late_{number}.so")) for number in range(LIBRARIES)]


def _record(tmp_path: Path, wall_rate: int, *command: str | Path) -> Process:
    outcome = recorded(command, tmp_path / "p", wall_rate=wall_rate)
    assert (outcome.status, outcome.stdout) == (0, "alive\n"), outcome.stderr
    (process,) = processes(tmp_path / "p")
    return process


@pytest.mark.parametrize("wall_rate", [0, 999])
def test_new_code_is_looked_up_on_the_smallest_stack(scenes: Path, libraries: list[Path], tmp_path: Path, wall_rate: int) -> None:
    process = _record(tmp_path, wall_rate, scenes, "small_threads", *libraries)
    names = {Path(path).name for path in process.table("modules")["path"]}
    assert names >= {library.name for library in libraries}


@pytest.mark.parametrize("wall_rate", [0, 999])
def test_ticks_in_a_handler_on_an_alternate_stack_of_eight_kilobytes(
    scenes: Path, libraries: list[Path], tmp_path: Path, wall_rate: int
) -> None:
    process = _record(tmp_path, wall_rate, scenes, "small_alternate", *libraries)
    assert "[on another stack]" in process.table("marks")["text"].to_list()


@pytest.mark.parametrize("wall_rate", [0, 999])
def test_a_coroutine_may_have_less_stack_than_a_signal_frame(scenes: Path, tmp_path: Path, wall_rate: int) -> None:
    process = _record(tmp_path, wall_rate, scenes, "small_coroutine")
    assert "[on another stack]" in process.table("marks")["text"].to_list()


def test_a_thread_first_sampled_on_an_alternate_stack_is_unwound_on_its_own(scenes: Path, tmp_path: Path) -> None:
    process = _record(tmp_path, 0, scenes, "unseen_thread")
    samples = process.table("cpu_samples")
    assert samples["thread"].n_unique() == 2
    assert "[on another stack]" not in process.table("marks")["text"].to_list()
