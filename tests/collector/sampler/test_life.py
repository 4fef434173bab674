"""A thousand lives of each kind under sampling: nothing crashes, and every life is in the profile."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from live import Process, processes, recorded

from built import built
from interpreters import VERSIONS, interpreter

TIMES = 1000


@pytest.fixture(scope="module")
def loops() -> Path:
    return built("programs/life_loops")


def test_a_thousand_forks_while_threads_are_sampled(loops: Path, tmp_path: Path) -> None:
    outcome = recorded([loops, "fork", str(TIMES)], tmp_path / "p")
    assert (outcome.status, outcome.stdout) == (0, "failures 0\n"), outcome.stderr
    parent, *children = processes(tmp_path / "p")
    assert len(children) == TIMES
    assert all(child.tables["processes"]["forked"][0] == 1 for child in children)
    assert all(_ended(process) for process in (parent, *children))
    assert _ticks([parent]) > 0


def test_a_thousand_execs_of_one_process(loops: Path, tmp_path: Path) -> None:
    outcome = recorded([loops, "exec", str(TIMES)], tmp_path / "p")
    assert outcome.status == 6, outcome.stderr
    images = processes(tmp_path / "p")
    assert len(images) == TIMES + 1
    assert len({image.pid for image in images}) == 1
    assert all(_ended(image) for image in images)


def test_a_thousand_spawned_children_with_an_empty_environment(loops: Path, tmp_path: Path) -> None:
    outcome = recorded([loops, "spawn", str(TIMES)], tmp_path / "p")
    assert (outcome.status, outcome.stdout) == (0, "failures 0\n"), outcome.stderr
    assert len(processes(tmp_path / "p")) == TIMES + 1


def test_a_sampled_library_loaded_and_unloaded_a_thousand_times(loops: Path, tmp_path: Path) -> None:
    library = built("programs/liblife_library.so")
    outcome = recorded([loops, "dlclose", str(TIMES), library], tmp_path / "p")
    assert (outcome.status, outcome.stdout) == (0, "failures 0\n"), outcome.stderr
    (process,) = processes(tmp_path / "p")
    assert any(path.endswith(library.name) for path in process.table("modules")["path"])


def test_four_thousand_threads_that_come_and_go(loops: Path, tmp_path: Path) -> None:
    outcome = recorded([loops, "threads", str(TIMES)], tmp_path / "p")
    assert (outcome.status, outcome.stdout) == (0, "failures 0\n"), outcome.stderr
    (process,) = processes(tmp_path / "p")
    assert len(process.table("threads")) == len(process.table("thread_ends")) == 4 * TIMES + 3


OS_EXIT = f"""
import os, sys, threading
sys.setswitchinterval(0.0002)  # or each turn waits twice for 5 ms until the thread lets go of the interpreter
threading.Thread(target=lambda: [sum(range(1000)) for _ in range(10**9)], daemon=True).start()
for turn in range({TIMES}):
    pid = os.fork()
    if pid == 0:
        sum(range(20000))
        os._exit(turn % 100)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == turn % 100
os._exit(17)
"""


def test_a_thousand_python_children_that_leave_by_os_exit(tmp_path: Path) -> None:
    outcome = recorded([sys.executable, "-W", "ignore", "-c", OS_EXIT], tmp_path / "p")
    assert outcome.status == 17, outcome.stderr
    recorded_processes = processes(tmp_path / "p")
    assert len(recorded_processes) == TIMES + 1
    assert all(_ended(process) for process in recorded_processes)


SUB_INTERPRETERS = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
for turn in range(int(sys.argv[1])):
    one = interpreters.create()
    interpreters.run_string(one, "sum(i * i for i in range(3000))")
    interpreters.destroy(one)
print("done")
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_sub_interpreters_that_come_and_go(version: str, tmp_path: Path) -> None:
    python = interpreter(version) or pytest.skip(f"no CPython {version} here")
    times = TIMES if version == "3.12" else TIMES // 10
    # Without `site`, whose import by each interpreter is a quarter of the whole time.
    outcome = recorded([python, "-S", "-c", SUB_INTERPRETERS, str(times)], tmp_path / "p")
    assert (outcome.status, outcome.stdout) == (0, "done\n"), outcome.stderr
    assert _ticks(processes(tmp_path / "p")) > 0


def _ended(process: Process) -> bool:
    return len(process.table("process_ends")) == 1


def _ticks(recorded_processes: list[Process]) -> int:
    return sum(int(process.table("cpu_samples")["weight"].sum()) for process in recorded_processes)
