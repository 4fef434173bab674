"""Ticks run on stacks of ours: a program's own stacks, alternate stacks and sandboxes are as they are without us."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from live import Outcome, plain, processes, recorded

from built import built

PROGRAM = Path(__file__).parent / "programs" / "tick_stack_scenes.cpp"
SCENES = re.findall(r'^      \{"(\w+)", ', PROGRAM.read_text(), re.MULTILINE)
RATES = {"cpu": 0, "cpu and wall": 999}


@pytest.fixture(scope="module")
def scenes() -> Path:
    return built("programs/tick_stack_scenes")


@pytest.fixture(scope="module")
def alone(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcome]:
    """The outcome of a scene without us, which is the same for each rate: it runs once."""
    return cache(lambda scene: plain([scenes, scene], tmp_path_factory.mktemp(scene)))


@pytest.fixture(scope="module")
def fortified() -> Path:
    """Where longjmp() looks whether it leaves an alternate stack."""
    return built("programs/tick_stack_scenes_fortified")


@pytest.mark.parametrize("wall_rate", RATES.values(), ids=RATES.keys())
@pytest.mark.parametrize("scene", SCENES)
def test_a_program_ends_as_it_does_alone(scenes: Path, alone: Callable[[str], Outcome], tmp_path: Path, scene: str, wall_rate: int) -> None:
    assert (alone(scene).status, bool(alone(scene).stdout)) == (0, True)
    assert recorded([scenes, scene], tmp_path / "p", wall_rate=wall_rate) == alone(scene)
    (process,) = processes(tmp_path / "p")
    assert len(process.table("cpu_samples")) or scene == "errors_of_sigaltstack"  # over in no time


@pytest.mark.parametrize("wall_rate", RATES.values(), ids=RATES.keys())
def test_a_fortified_program_jumps_out_of_its_alternate_stack(fortified: Path, tmp_path: Path, wall_rate: int) -> None:
    alone = plain([fortified, "overflow_recovery"], tmp_path)
    assert (alone.status, alone.stdout.count("20 overflows survived")) == (0, 2)
    assert recorded([fortified, "overflow_recovery"], tmp_path / "p", wall_rate=wall_rate) == alone


@pytest.mark.parametrize("scene", ["bare_thread_without_memory", "bare_thread_with_anothers_memory"])
def test_a_thread_that_libc_did_not_make_is_sampled_once_it_has_waited(scenes: Path, tmp_path: Path, scene: str) -> None:
    recorded([scenes, scene], tmp_path / "p")
    (process,) = processes(tmp_path / "p")
    threads = process.table("threads")
    bare = threads.filter(threads["tid"] != process.pid)["id"].to_list()
    assert len(bare) == 1
    samples = process.table("cpu_samples")
    assert samples.filter(samples["thread"] == bare[0])["weight"].sum() > 10
