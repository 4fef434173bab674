"""Timed tests have a core or the machine to themselves and a second chance; no other test has either. A test that hangs fails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).parent

TESTS = """
import os, time
from pathlib import Path
import pytest

@pytest.fixture(autouse=True)
def noted(request):
    begin = time.monotonic()
    time.sleep(0.1)
    yield
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    line = f"{request.node.nodeid} {os.environ['PYTEST_XDIST_WORKER']} {begin} {time.monotonic()} {cores}\\n"
    with Path("noted").open("a") as file:
        file.write(line)

@pytest.mark.parametrize("number", range(NUMBER))
def test_plain(number): pass

@pytest.mark.timed
@pytest.mark.parametrize("number", range(3))
def test_timed(number): pass

@pytest.mark.timed(alone=True)
@pytest.mark.parametrize("number", range(2))
def test_alone(number): pass

def test_plain_that_fails():
    assert not FAILS

@pytest.mark.timed
def test_timed_that_fails():
    assert not FAILS
"""


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_timed_tests_wait_for_all_others_and_keep_to_a_core(tmp_path: Path, workers: int) -> None:
    seen = run_files(tmp_path, workers, fails=False, sizes=(9, 1, 4))
    assert Counter(test.kind for test in seen) == {"timed": 3 * 4, "plain": 14 + 3, "alone": 3 * 2}
    plain, timed, alone = ([test for test in seen if test.kind == kind] for kind in ("plain", "timed", "alone"))
    assert min(test.begin for test in timed) >= max(test.end for test in plain)
    assert min(test.begin for test in alone) >= max(test.end for test in timed)
    assert len({test.worker for test in alone}) == 1
    every = ",".join(map(str, sorted(os.sched_getaffinity(0))))
    assert {test.cores for test in [*plain, *alone]} == {every}
    of_workers = {(test.worker, test.cores) for test in timed}
    assert len({worker for worker, _ in of_workers}) == len(of_workers)
    assert len({cores for _, cores in of_workers}) == len(of_workers) <= every.count(",") + 1
    assert all("," not in cores for _, cores in of_workers)


def test_the_timed_tests_of_several_files_are_shared_among_workers(tmp_path: Path) -> None:
    seen = run_files(tmp_path, 2, fails=False, sizes=(1, 1, 1, 1))
    assert len({test.worker for test in seen if test.kind == "timed"}) == 2


def test_a_timed_test_alone_is_tried_again(tmp_path: Path) -> None:
    seen = run_files(tmp_path, 2, fails=True, sizes=(1,))
    tries = Counter(test.name for test in seen if "fails" in test.name)
    assert tries == {"test_plain_that_fails": 1, "test_timed_that_fails": 3}


HANGING = """
import time
import pytest

def test_before(): pass

def test_hangs():
    time.sleep(1000)

@pytest.mark.timed
def test_timed_hangs():
    time.sleep(1000)

@pytest.mark.timeout(1000)
def test_has_another_bound():
    time.sleep(BOUND + 1)

def test_after(): pass
"""
HANGING_IN_C = """
import itertools

def test_hangs_in_c():
    max(itertools.repeat(1))

def test_after(): pass
"""


def test_a_test_that_hangs_fails_once_and_the_others_run(tmp_path: Path) -> None:
    pytest.importorskip("pytest_timeout")
    prepare(tmp_path, bound_s=2)
    (tmp_path / "test_hanging.py").write_text(HANGING.replace("BOUND", "2"))
    run = run_pytest(tmp_path, workers=2)
    assert run.returncode == 1
    assert results(run.stdout) == "2 failed, 3 passed"
    assert run.stdout.count("Timeout (>2.0s) from pytest-timeout.") >= 2


def test_a_worker_whose_test_hangs_in_c_is_replaced(tmp_path: Path) -> None:
    prepare(tmp_path, bound_s=1, ini="faulthandler_timeout = 3\nfaulthandler_exit_on_timeout = true\n")
    (tmp_path / "test_hanging.py").write_text(HANGING_IN_C)
    run = run_pytest(tmp_path, workers=2)
    assert run.returncode == 1
    assert results(run.stdout) == "1 failed, 1 passed"
    assert "crashed while running 'test_hanging.py::test_hangs_in_c'" in run.stdout


def test_a_bound_in_python_ends_before_the_bound_in_c() -> None:
    conftest, ini = (HERE / "conftest.py").read_text(), (HERE.parent / "pyproject.toml").read_text()
    in_python, in_c = re.search(r"^BOUND_S = (\d+)$", conftest, re.M), re.search(r"^faulthandler_timeout = (\d+)$", ini, re.M)
    assert in_python is not None
    assert in_c is not None
    assert int(in_python[1]) < int(in_c[1])
    assert "\nfaulthandler_exit_on_timeout = true\n" in ini


OF_THEIR_PROCESS = """
import gc, os
import polars

def test_one_thread():
    assert polars.thread_pool_size() == 1
    assert "POLARS_MAX_THREADS" not in os.environ

def test_garbage_is_searched_for_beside_what_was_collected():
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_polars_has_one_thread_in_tests_and_old_objects_are_no_garbage(tmp_path: Path, workers: int) -> None:
    prepare(tmp_path)
    (tmp_path / "test_threads.py").write_text(OF_THEIR_PROCESS)
    run = run_pytest(tmp_path, workers)
    assert run.returncode == 0, run.stdout


def results(printed: str) -> str:
    """`2 failed, 3 passed` of the last line."""
    return printed.splitlines()[-1].partition(" in ")[0].strip("= ")


class Try(NamedTuple):
    name: str
    worker: str
    begin: float
    end: float
    cores: str

    @property
    def kind(self) -> str:
        return self.name.split("_")[1].partition("[")[0]


def run_files(folder: Path, workers: int, fails: bool, sizes: tuple[int, ...]) -> list[Try]:
    """Runs files of such sizes under our conftest.py, and reads the lines that each try of a test wrote."""
    prepare(folder)
    for number, size in enumerate(sizes):
        (folder / f"test_{number}.py").write_text(TESTS.replace("NUMBER", str(size)).replace("FAILS", str(fails)))
    run = run_pytest(folder, workers)
    assert run.returncode == fails, run.stdout + run.stderr
    rows = []
    for line in (folder / "noted").read_text().splitlines():
        nodeid, worker, begin, end, cores = line.rsplit(" ", 4)
        rows.append(Try(nodeid.rpartition("::")[2], worker, float(begin), float(end), cores))
    return rows


def prepare(folder: Path, bound_s: int = 600, ini: str = "") -> None:
    """Our conftest.py, with such a bound for each test."""
    pytest.importorskip("xdist")
    pytest.importorskip("pytest_rerunfailures")
    for name in ("rewritten.py", "scheduling.py", "timed_tests.py"):
        shutil.copy(HERE / name, folder / name)
    conftest = (HERE / "conftest.py").read_text()
    assert "\nBOUND_S = 600\n" in conftest
    (folder / "conftest.py").write_text(conftest.replace("\nBOUND_S = 600\n", f"\nBOUND_S = {bound_s}\n"))
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}markers =\n  timed: see pyproject.toml\n")


def run_pytest(folder: Path, workers: int) -> subprocess.CompletedProcess[str]:
    env = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--basetemp", str(folder / "base")]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
