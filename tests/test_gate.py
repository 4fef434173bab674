"""Timed tests have the machine to themselves and a second chance; no other test has either."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

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
    line = f"{request.node.nodeid} {os.environ['PYTEST_XDIST_WORKER']} {begin} {time.monotonic()}\\n"
    with Path("noted").open("a") as file:
        file.write(line)

@pytest.mark.parametrize("number", range(NUMBER))
def test_plain(number): pass

@pytest.mark.timed
@pytest.mark.parametrize("number", range(3))
def test_timed(number): pass

def test_plain_that_fails():
    assert not FAILS

@pytest.mark.timed
def test_timed_that_fails():
    assert not FAILS

@pytest.mark.timed(reruns=0)
def test_timed_once_that_fails():
    assert not FAILS
"""


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_timed_tests_of_all_files_come_last_on_one_worker_that_is_alone(tmp_path: Path, workers: int) -> None:
    seen = run_files(tmp_path, workers, fails=False, sizes=(9, 1, 4))
    assert Counter(name.startswith("test_timed") for name, *_ in seen) == {True: 3 * 5, False: 14 + 3}
    timed = [(worker, begin) for name, worker, begin, _ in seen if name.startswith("test_timed")]
    assert len({worker for worker, _ in timed}) == 1
    assert min(begin for _, begin in timed) >= max(end for name, _, _, end in seen if name.startswith("test_plain"))


def test_a_timed_test_alone_is_tried_again(tmp_path: Path) -> None:
    seen = run_files(tmp_path, 2, fails=True, sizes=(1,))
    tries = Counter(name for name, *_ in seen if "fails" in name)
    assert tries == {"test_plain_that_fails": 1, "test_timed_that_fails": 3, "test_timed_once_that_fails": 1}


def run_files(folder: Path, workers: int, fails: bool, sizes: tuple[int, ...]) -> list[tuple[str, str, float, float]]:
    """Runs files of such sizes under our conftest.py, and reads the lines that each try of a test wrote."""
    pytest.importorskip("xdist")
    pytest.importorskip("pytest_rerunfailures")
    for name in ("conftest.py", "scheduling.py", "timed_tests.py"):
        shutil.copy(HERE / name, folder / name)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  timed: see pyproject.toml\n")
    for number, size in enumerate(sizes):
        (folder / f"test_{number}.py").write_text(TESTS.replace("NUMBER", str(size)).replace("FAILS", str(fails)))
    env = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--basetemp", str(folder / "base")]
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == fails, run.stdout + run.stderr
    rows = []
    for line in (folder / "noted").read_text().splitlines():
        nodeid, worker, begin, end = line.rsplit(" ", 3)
        rows.append((nodeid.rpartition("::")[2], worker, float(begin), float(end)))
    return rows
