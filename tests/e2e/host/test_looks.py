"""The recorder's looks at waiting threads show where these stand, and change nothing that a program sees."""

from __future__ import annotations

import errno
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from recording import PYTHON, Recorder

from aiflame.analyze.waiting import waiting
from aiflame.api import Profile
from aiflame.attribute.stacks.functions import functions
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.recorder.looks.waits import Waits
from interpreters import VERSIONS, interpreter

PROGRAMS = Path(__file__).parent / "programs"
EXPECTED = {
    "sleep": (0, 0, 1.0),
    "usleep": (0, 0, 0.5),
    "nanosleep": (0, 0, 0.5),
    "raw nanosleep": (0, 0, 0.5),
    "poll": (0, 0, 0.5),
    "raw poll": (0, 0, 0.5),
    "ppoll": (0, 0, 0.5),
    "epoll_wait": (0, 0, 0.5),
    "select": (0, 0, 0.5),
    "recv": (-1, errno.EAGAIN, 0.7),
    "raw futex": (-1, errno.ETIMEDOUT, 0.5),
    "read": (1, 0, 1.0),
    "wait": (1, 0, 0.0),
    "lock": (0, 0, 1.0),
    "urgent": (1, 0, 1.0),
    "pending": (0, 0, 1.0),
}
"""The result, the error, and the seconds that it takes."""


def compiled(name: str, folder: Path) -> Path:
    program = folder / name
    source = PROGRAMS / f"{name}.c"
    subprocess.run(["gcc", "-O1", "-pthread", "-D_GNU_SOURCE", "-o", str(program), str(source)], check=True)
    return program


def stacks(profile: Profile) -> dict[int, list[list[str]]]:
    """Of each thread, the names of the frames at each look, the innermost first."""
    trie, waits = functions(profile.store), profile.table("waits")
    names = trie.frames["name"].to_list()
    leaves = trie.of_stacks(waits["process"].to_numpy().astype(np.int64), waits["stack"].to_numpy().astype(np.int64))
    of: dict[int, list[list[str]]] = {}
    for thread, leaf in zip(waits["thread"].to_list(), leaves.tolist(), strict=True):
        node, frames = int(leaf), list[str]()
        while node > trie.processes:
            frames.append(names[trie.frame[node]])
            node = int(trie.parent[node])
        of.setdefault(thread, []).append(frames)
    return of


def test_calls_end_when_they_would_have_ended(record: Recorder, tmp_path: Path) -> None:
    run = record(compiled("left_alone", tmp_path))
    assert run.status == 0, run.stderr
    *lines, last = run.stdout.splitlines()
    assert last == "executed"
    ends = {name: (int(result), int(error), float(took)) for name, result, error, took in (line.rsplit(" ", 3) for line in lines)}
    assert {name: end[:2] for name, end in ends.items()} == {name: end[:2] for name, end in EXPECTED.items()}
    for name, (*_, took) in ends.items():
        assert took >= 0.95 * EXPECTED[name][2], name
    assert run.profile().table("waits").height > 20
    seen = [frames for of_thread in stacks(run.profile()).values() for frames in of_thread]
    assert sum("main" in frames for frames in seen) > len(seen) / 2


def test_a_programs_alarm_ends_its_read_while_it_is_looked_at_all_the_time(record: Recorder, tmp_path: Path) -> None:
    program = compiled("alarmed", tmp_path)
    looks, over = [], threading.Event()

    def look() -> None:
        profile = tmp_path / "run0.aiflame"
        while not (profile / "spool/lives.table").exists():
            time.sleep(0.01)
        folder = Folder.open(profile)
        with ControlPage.open(folder) as page:
            waits = Waits(folder.folder("spool"), page)
            while not over.wait(0.002):
                waits.look()
            looks.append(waits.seen)
            waits.finish()

    looker = threading.Thread(target=look)
    looker.start()
    run = record(program, options=("--no-waits",))
    over.set()
    looker.join()
    assert (run.status, run.stdout) == (0, "0\n"), run.stderr
    assert looks[0] > 200


MANY_SLEEP = """
import pathlib, sys, threading, time
for _ in range(300): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
began, over = map(pathlib.Path, sys.argv[1:])
states = lambda: [path.read_text().rpartition(")")[2].split()[0] for path in pathlib.Path("/proc/self/task").glob("*/stat")]
while states().count("S") < 300: time.sleep(0.05)
began.touch()
end = time.monotonic() + 300
while not over.exists() and time.monotonic() < end: time.sleep(0.05)
"""


def test_each_of_many_threads_has_its_turn(record: Recorder, tmp_path: Path) -> None:
    """A look visits the main thread and another one, which stands for the time since its last look. The load says how often there is one:
    here they go on until there are enough."""
    began, over, enough, looks = tmp_path / "began", tmp_path / "over", 200, []

    def look() -> None:
        while not began.exists():
            time.sleep(0.01)
        folder = Folder.open(tmp_path / "run0.aiflame")
        with ControlPage.open(folder) as page:
            waits = Waits(folder.folder("spool"), page)
            end = time.monotonic() + 200
            while waits.seen < enough and time.monotonic() < end:
                waits.look()
                time.sleep(0.002)
            looks.append(waits.looks)
            waits.finish()
        over.touch()

    looker = threading.Thread(target=look, daemon=True)
    looker.start()
    run = record(PYTHON, "-c", MANY_SLEEP, began, over, options=("--no-waits",))
    assert run.status == 0, run.stderr
    waits = run.profile().table("waits").select("thread", "time_ns", off_ns=pl.col("off_us").cast(pl.Int64) * 1000)
    others = waits.group_by("thread").agg(pl.len(), pl.col("off_ns").sum(), over_ns=pl.col("time_ns").max() - pl.col("time_ns").min())
    others = others.filter(pl.col("thread") != waits["thread"].mode().min())
    assert enough / 3 < others["len"].sum() <= looks[0]
    assert len(others) > 0.6 * others["len"].sum()  # of 300 threads by chance: 0.85
    assert (others["over_ns"] - others["off_ns"]).abs().max() < 100_000


SLEEPS_AND_RUNS = """
import pathlib, sys, time
began, seen, slept, over = map(pathlib.Path, sys.argv[1:])
began.touch()
while not seen.exists(): time.sleep(0.01)
time.sleep(0.5)
slept.touch()
while not over.exists(): sum(range(10000))
"""


def test_the_last_waits_of_a_thread_that_runs_at_all_later_looks_count(record: Recorder, tmp_path: Path) -> None:
    began, seen, slept, over = files = [tmp_path / name for name in ("began", "seen", "slept", "over")]

    def look() -> None:
        while not began.exists():
            time.sleep(0.01)
        folder = Folder.open(tmp_path / "run0.aiflame")
        with ControlPage.open(folder) as page:
            waits = Waits(folder.folder("spool"), page)
            while not waits.seen:
                waits.look()
            seen.touch()
            while not slept.exists():
                time.sleep(0.01)
            for _ in range(3):
                waits.look()
            waits.finish()
        over.touch()

    looker = threading.Thread(target=look, daemon=True)
    looker.start()
    run = record(PYTHON, "-c", SLEEPS_AND_RUNS, *files, options=("--no-waits",))
    assert run.status == 0, run.stderr
    waits = run.profile().table("waits")
    assert waits["off_us"].sum() > 500_000
    assert waits["stack"].n_unique() == 1


@pytest.mark.parametrize("options", [("--no-waits",), ("--wall",), ("--cpu-rate", "0")])
def test_nothing_is_looked_at_with_wall_clock_samples_or_when_not_wanted(record: Recorder, options: tuple[str, ...]) -> None:
    program = "import time; time.sleep(1); sum(range(10**6))"
    assert not record(PYTHON, "-c", program, options=options).profile().store.has("waits")


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_of_sleeping_threads_are_those_of_the_program(record: Recorder, version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no CPython {version} here")
    run = record(python, PROGRAMS / "standing.py")
    assert run.status == 0, run.stderr
    profile = run.profile()
    main, *others = (frames for _, frames in sorted(stacks(profile).items()))
    deep = [[name for name in frames if name in ("deep", "<module>")] for frames in main if "deep" in frames]
    assert len(deep) > 10
    assert all(frames == ["deep"] * 41 + ["<module>"] for frames in deep)
    wanted = {"naps", "wants", "generates", "Ünits.gëts" if version != "3.10" else "gëts", "from_c"}
    assert {frames[at] for of in others for frames in of for at in range(len(frames)) if frames[at] in wanted} == wanted
    seen = waiting(profile.store)
    assert seen is not None
    lines = (PROGRAMS / "standing.py").read_text().splitlines()
    stood = seen.seen.filter(pl.col("why").is_not_null(), pl.col("file").str.ends_with("standing.py")).select("caller", "line").unique()
    marks = {lines[line - 1].rpartition("# ")[2] for _, line in stood.rows()}
    assert {"naps", "wants", "generates", "gets", "from_c", "deep"} <= marks
