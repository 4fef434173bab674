"""Findings about waits: their reasons, idle threads, and the holder of a lock."""

from __future__ import annotations

from pathlib import Path

import pytest
from stories import MAIN, Story
from story_findings import found

from aiflame.analyze.finding import Finding
from aiflame.analyze.waiting import by_line, costs
from aiflame.analyze.waiting import waiting as of_profile
from aiflame.attribute.analysis import Analysis

PYTHON = "/usr/lib/python3.12/"
JOIN = ("Thread.join", PYTHON + "threading.py")
EVENT = ("Event.wait", PYTHON + "threading.py")
WORKER = ("_worker", PYTHON + "concurrent/futures/thread.py")
SELECT = ("EpollSelector.select", PYTHON + "selectors.py")
CALLBACK = ("Handle._run", PYTHON + "asyncio/events.py")
NEXT = ("_MultiProcessingDataLoaderIter._next_data", "/site-packages/torch/utils/data/dataloader.py")
RUN = ("run", "/usr/lib/python3.12/subprocess.py")
LINE = ("work", "/app/work.py", 7)
LOCK = "__new_sem_wait_slow64"
MS = 1_000_000
LOOKS = 100


def waits(share: float, *frames: object, worker: tuple[object, ...] = (), worked: tuple[object, ...] = ()) -> Story:
    """A main thread that waits for this share of a second with these frames, beside another with its own waits and its own work."""
    story = Story()
    story.tables["waits"] = []
    other = story.thread("helper")
    for number in range(LOOKS):
        end = (number + 1) * 10 * MS
        for thread, stack in ((1, frames), (other, worker)):
            if stack:
                part = share if thread == 1 else 1
                row = {"thread": thread, "stack": story.stack(*stack), "time_ns": end, "off_us": int(10_000 * part), "call": 202}
                story.tables["waits"].append(row)
        story.met(end / 1000 - 4000, MAIN, clock=0)
        if worked:
            story.met(end / 1000 - 3000, *worked, thread=other, clock=0)
    story.tables["thread_ends"] = [{"thread": thread, "end_ns": LOOKS * 10 * MS, "cpu_ns": 0} for thread in (1, other)]
    return story


def waiting(story: Story, path: Path) -> dict[str, Finding]:
    return {kind: one for kind, one in found(story, path).items() if kind.startswith(("waiting-", "loop-"))}


@pytest.mark.parametrize(
    ("frames", "kind", "sentence"),
    [
        ((LINE, "clock_nanosleep"), "waiting-sleep", "The main thread sleeps 40% of the time, most at work.py:7"),
        ((LINE, LOCK), "waiting-lock", "The main thread waits for a lock 40% of the time, most at work.py:7"),
        ((LINE, "take_gil"), "waiting-gil", "The main thread waits for Python's interpreter lock (GIL) 40% of the time, most at work.py:7"),
        ((LINE, "__GI_fsync"), "waiting-io", "The main thread waits for input and output (fsync) 40% of the time, most at work.py:7"),
        ((LINE, NEXT, "poll"), "waiting-data", "The main thread waits for its DataLoader 40% of the time at work.py:7"),
        (
            (CALLBACK, LINE, "clock_nanosleep"),
            "loop-blocked",
            "The event loop stands still 40% of the time: work() (work.py:7) sleeps on its thread",
        ),
    ],
)
def test_a_wait_is_a_share_of_elapsed_time(tmp_path: Path, frames: tuple[object, ...], kind: str, sentence: str) -> None:
    kinds = waiting(waits(0.4, MAIN, *frames), tmp_path)
    assert list(kinds) == [kind]
    assert kinds[kind].sentence == sentence
    assert kinds[kind].view.place == "/app/work.py:7"
    assert waiting(waits(0.09, MAIN, *frames), tmp_path / "less") == {}


@pytest.mark.parametrize(
    "frames",
    [(JOIN, LOCK), (EVENT, LOCK), (WORKER, LOCK), (SELECT, "epoll_wait"), (RUN, "select"), ("pthread_join", "futex_wait"), ("accept4",)],
    ids=["join", "event", "pool", "loop", "child", "pthread_join", "server"],
)
def test_waiting_for_work_is_idle(tmp_path: Path, frames: tuple[object, ...]) -> None:
    assert waiting(waits(1, MAIN, *frames), tmp_path) == {}


@pytest.mark.parametrize("pool", [WORKER, ("worker", PYTHON + "multiprocessing/pool.py")])
def test_a_pools_worker_that_waits_in_its_task_is_not_idle(tmp_path: Path, pool: tuple[str, str]) -> None:
    (finding,) = waiting(waits(0.8, MAIN, JOIN, LOCK, worker=(pool, LINE, "__GI_fsync")), tmp_path).values()
    assert finding.sentence == "A thread waits for input and output (fsync) 80% of the time, most at work.py:7"


def test_a_join_has_the_time_of_the_threads(tmp_path: Path) -> None:
    (finding,) = waiting(waits(0.8, MAIN, JOIN, LOCK, worker=(LINE, "__GI_fsync")), tmp_path).values()
    assert finding.sentence == "A thread waits for input and output (fsync) 80% of the time, most at work.py:7"


def test_a_helper_that_sleeps_beside_an_idle_server_is_silent(tmp_path: Path) -> None:
    assert waiting(waits(1, MAIN, SELECT, "epoll_wait", worker=(LINE, "clock_nanosleep")), tmp_path) == {}
    assert waiting(waits(0.05, MAIN, JOIN, LOCK, worker=(LINE, "clock_nanosleep")), tmp_path / "joined") == {}


@pytest.mark.parametrize(
    ("doing", "why"), [({"worker": (LINE, "clock_nanosleep")}, LOCK), ({"worked": (LINE,)}, "take_gil")], ids=["sleeps", "runs"]
)
def test_a_lock_is_held_by_the_thread_that_runs_or_sleeps_meanwhile(tmp_path: Path, doing: dict[str, tuple[object, ...]], why: str) -> None:
    (finding,) = waiting(waits(0.5, MAIN, ("take", "/app/lock.py", 3), why, **doing), tmp_path).values()
    assert finding.sentence.endswith("50% of the time, most at lock.py:3, held by thread helper in work() (work.py:7)")


def test_few_looks_name_no_line(tmp_path: Path) -> None:
    story = waits(0.5, MAIN, LINE, "clock_nanosleep")
    story.tables["waits"] = story.tables["waits"][:19]
    assert waiting(story, tmp_path) == {}


def test_the_evidence_is_the_lines_that_wait(tmp_path: Path) -> None:
    profile = waits(0.4, MAIN, LINE, "clock_nanosleep").profile(tmp_path)
    seen = of_profile(Analysis(profile))
    assert seen is not None
    assert by_line(seen).rows() == [("sleep", "/app/work.py", 7, "work", pytest.approx(0.4), LOOKS)]


@pytest.mark.parametrize(("lives", "frames", "silent"), [(1.0, (), True), (0.1, (), False), (1.0, (LINE,), False)])
def test_a_program_that_polls_while_its_child_processes_run_waits_for_them(
    tmp_path: Path, lives: float, frames: tuple[object, ...], silent: bool
) -> None:
    """`make` waits so for its children. Without running children, or from Python, pselect is a wait for input."""
    story = waits(0.8, *frames, "pselect64_syscall")
    story.tables["threads"].append({"process": 1, "tid": 4712, "start_ns": 0})
    story.tables["thread_ends"].append({"process": 1, "thread": 1, "end_ns": int(lives * LOOKS * 10 * MS), "cpu_ns": 0})
    profile = story.profile(tmp_path, processes=[{"pid": 4711}, {"process": 1, "pid": 4712, "ppid": 4711}])
    seen = of_profile(Analysis(profile))
    assert seen is not None
    assert (costs(seen) == {}) == silent
