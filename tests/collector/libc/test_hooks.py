"""Threads, new programs, exits and waits are followed, and a program cannot notice."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from live import EVERYTHING, Outcome, Process, library, plain, processes, recorded

from aiflame.profile.schema.control_schema import Feature
from built import built

WAYS = (
    "fork_execve",
    "vfork_execve",
    "_Fork",
    "execv",
    "execvp",
    "execvpe",
    "execl",
    "execlp",
    "execle",
    "fexecve",
    "execveat",
    "posix_spawn",
    "posix_spawnp",
    "large",
    "null",
    "preload",
)


@pytest.fixture(scope="module")
def scenes() -> Path:
    return built("programs/hook_scenes")


@pytest.fixture
def both(tmp_path: Path) -> Callable[..., tuple[Outcome, Outcome]]:
    """The same command without the collector and with it."""

    def run(*command: str | Path, wall_rate: int = 0) -> tuple[Outcome, Outcome]:
        return plain(command, tmp_path), recorded(command, tmp_path / "p", wall_rate=wall_rate)

    return run


@pytest.mark.parametrize("scene", ["thread_attributes", "thread_ends", "thread_frames", "_exit", "_Exit", "quick_exit", "exit", "daemon"])
def test_a_program_sees_the_same_with_and_without_the_collector(
    scenes: Path, both: Callable[..., tuple[Outcome, Outcome]], scene: str
) -> None:
    alone, accompanied = both(scenes, scene)
    assert accompanied == alone


@pytest.mark.parametrize("scene", ["waits_undisturbed", "waits_interrupted", "waits_for_any_signal"])
def test_wall_clock_ticks_do_not_show_in_waits(
    scenes: Path, both: Callable[..., tuple[Outcome, Outcome]], scene: str, tmp_path: Path
) -> None:
    alone, accompanied = both(scenes, scene, wall_rate=499)
    assert accompanied == alone
    (process,) = processes(tmp_path / "p")
    assert process.table("cpu_samples").filter(pl.col("clock") == 1)["weight"].sum() > 50


def test_every_thread_has_its_start_its_end_and_its_creator(scenes: Path, tmp_path: Path) -> None:
    recorded([scenes, "many_threads"], tmp_path / "p")
    (process,) = processes(tmp_path / "p")
    threads, ends = process.table("threads"), process.table("thread_ends")
    assert len(threads) == 81
    assert sorted(ends["thread"].to_list()) == sorted(threads["id"].to_list())
    workers = threads.filter(pl.col("tid") != process.pid)
    assert (workers["creator"] > 0).all()
    assert _leaf_modules(process, workers["creator"].unique().to_list()) == {scenes.name}


@pytest.mark.parametrize("ending", ["_exit", "_Exit", "quick_exit", "exit"])
def test_each_orderly_way_out_writes_the_end(scenes: Path, tmp_path: Path, ending: str) -> None:
    recorded([scenes, ending], tmp_path / "p")
    (process,) = processes(tmp_path / "p")
    assert len(process.table("process_ends")) == 1
    assert process.table("cpu_samples")["weight"].sum() > 0


@pytest.mark.parametrize("way", WAYS)
def test_a_new_program_is_recorded_with_any_environment(scenes: Path, tmp_path: Path, way: str) -> None:
    command: list[str | Path] = [scenes, "children", way]
    alone, accompanied = plain(command, tmp_path), recorded(command, tmp_path / "p")
    assert accompanied == alone
    parent, *others = processes(tmp_path / "p")
    assert [process.command[1:] for process in others if process.command[1] == "work"] == [["work", f"child-{way}"]]
    for process in (parent, others[-1]):
        assert process.table("cpu_samples")["weight"].sum() > 0
        assert len(process.table("process_ends")) == 1


def test_children_are_left_alone_when_asked(scenes: Path, tmp_path: Path) -> None:
    outcome = recorded(
        [scenes, "children", "fork_execve", "execl", "posix_spawn", "vfork_execve"], tmp_path / "p", features=EVERYTHING - Feature.CHILDREN
    )
    assert outcome.status == 0
    (process,) = processes(tmp_path / "p")
    assert process.command[1] == "children"


def test_a_program_that_replaces_itself_is_recorded_also_without_children(scenes: Path, tmp_path: Path) -> None:
    code = f"import os; os.execve({str(scenes)!r}, ['scenes', 'work'], {{}})"
    recorded([sys.executable, "-c", code], tmp_path / "p", features=EVERYTHING - Feature.CHILDREN)
    before, after = processes(tmp_path / "p")
    assert before.pid == after.pid
    assert after.command == ["scenes", "work"]


PRELOADED_CHILD = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "import os; print(os.environ['LD_PRELOAD'])"], env={"LD_PRELOAD": "libm.so.6"})
"""


def test_the_users_own_preloaded_libraries_stay(scenes: Path, tmp_path: Path) -> None:
    outcome = recorded([sys.executable, "-c", PRELOADED_CHILD], tmp_path / "p")
    assert outcome.stdout == f"{library()}:libm.so.6\n"


SUBPROCESS = """
import subprocess, sys
for close_fds in (True, False):
    for argument in ({}, {"env": {}}, {"preexec_fn": lambda: None}, {"start_new_session": True}):
        done = subprocess.run([sys.executable, "-c", "print(sum(range(10**6)))"], close_fds=close_fds, capture_output=True, **argument)
        print(done)
"""


def test_pythons_subprocess_works_and_is_followed(both: Callable[..., tuple[Outcome, Outcome]], tmp_path: Path) -> None:
    alone, accompanied = both(sys.executable, "-c", SUBPROCESS)
    assert accompanied == alone
    started = [process for process in processes(tmp_path / "p") if process.command[-1] == "print(sum(range(10**6)))"]
    assert len(started) == 8


def test_without_a_profile_the_library_does_nothing(scenes: Path, tmp_path: Path) -> None:
    command: list[str | Path] = [scenes, "thread_ends"]
    assert plain(command, tmp_path, env={"LD_PRELOAD": str(library())}) == plain(command, tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_of_the_library_is_set_up_when_it_loads() -> None:
    """Recording begins in a constructor: a later constructor would reset its own variables."""
    with library().open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab")
        if not isinstance(symbols, SymbolTableSection):
            pytest.skip("the library is stripped")
        assert [symbol.name for symbol in symbols.iter_symbols() if symbol.name.startswith("_GLOBAL__sub_I")] == []


def _leaf_modules(process: Process, stacks: list[int]) -> set[str]:
    """File names of the modules that the innermost frames of these stacks are in."""
    frames = process.table("stacks").filter(pl.col("id").is_in(stacks))["frame"].to_list()
    paths = dict(process.table("modules").select("id", "path").iter_rows())
    return {Path(paths[frame >> 40 & 0xFFFFF]).name for frame in frames}
