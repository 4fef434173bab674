"""A shortage of CPUs or of memory is named, with its threads. One that nearly does is silent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from recording import PYTHON, Recorder, Run, all_findings

from aiflame.analyze.finding import Finding
from aiflame.analyze.scheduling import OWN

pytestmark = pytest.mark.timed

PROGRAM = Path(__file__).parent / "programs/planted_processors.py"
SECONDS = 4
"""Of ten looks each: twice as many as a finding needs."""
OF_KERNEL = ("oversubscribed-", "throttled", "page-faults", "swapping")


def of_kernel(record: Recorder, function: str) -> dict[str, tuple[int, Finding]]:
    return named(record(PYTHON, PROGRAM, function, SECONDS))


def with_part(record: Recorder, function: str) -> tuple[dict[str, tuple[int, Finding]], float]:
    """And which part of its CPUs the program had, by its own account."""
    run = record(PYTHON, PROGRAM, function, SECONDS)
    return named(run), float(run.stdout)


def named(run: Run) -> dict[str, tuple[int, Finding]]:
    """By kind: the place in the list, and the finding."""
    assert run.status == 0, run.stderr
    listed = all_findings(run.profile())
    return {one.kind: (number, one) for number, one in enumerate(listed) if one.kind.startswith(OF_KERNEL)}


@pytest.mark.parametrize(
    ("function", "kind", "whose"),
    [
        ("processes", "oversubscribed-processes", ": {} processes compute"),
        ("python_threads", "oversubscribed-python", ": {} of them are Python's"),
        ("openmp_threads", "oversubscribed-openmp", "of them are OpenMP's"),
    ],
)
def test_more_threads_than_cpus(record: Recorder, function: str, kind: str, whose: str) -> None:
    if function == "openmp_threads":
        pytest.importorskip("torch")
    kinds, part = with_part(record, function)
    # torch's temporaries are new memory each time, too.
    crowds = kinds.keys() - {"page-faults"}
    if part < OWN + 0.1 and not crowds:
        return  # other programs have the CPUs: that its threads wait is not its own doing
    assert crowds == {kind} and part > OWN - 0.1
    at, finding = kinds[kind]
    assert at < 3
    cpus = len(os.sched_getaffinity(0))  # a worker may have one core for timed tests
    assert whose.format({"processes": 3, "python_threads": 4}.get(function, 0) * cpus) in finding.sentence
    assert f"want the {cpus} CPUs" in finding.sentence or cpus == 1
    assert finding.share > 0.25  # of the whole run: importing torch takes long on a busy machine


@pytest.mark.parametrize("function", ["as_many_processes_as_cpus", "threads_that_share_the_lock", "alone", "the_same_memory", "calls"])
def test_a_near_miss_is_not_named(record: Recorder, function: str) -> None:
    assert of_kernel(record, function) == {}


def test_memory_that_is_new_each_time(record: Recorder) -> None:
    kinds = of_kernel(record, "new_memory")
    assert kinds.keys() == {"page-faults"}
    assert kinds["page-faults"][0] < 3
    assert kinds["page-faults"][1].share > 0.3


@contextlib.contextmanager
def quota(cpus: float) -> Iterator[Callable[[], float]]:
    """This process, and those that it starts, may use so much. Gives the seconds for which the kernel has held them up so far."""
    top = next((top for top in map(Path, ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup")) if (top / "cgroup.procs").exists()), None)
    if top is None:
        pytest.skip("no control groups here")
    group = top / f"aiflame-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"this user may make no control group: {error.strerror}")
    try:
        try:
            if (group / "cpu.max").exists():
                (group / "cpu.max").write_text(f"{int(cpus * 50_000)} 50000")
            else:
                (group / "cpu.cfs_period_us").write_text("50000")
                (group / "cpu.cfs_quota_us").write_text(str(int(cpus * 50_000)))
            (group / "cgroup.procs").write_text(str(os.getpid()))
        except OSError as error:
            pytest.skip(f"control groups have no quota here: {error.strerror}")
        yield lambda: _held_up_seconds(group)
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (top / "cgroup.procs").write_text(pid)
        with contextlib.suppress(OSError):
            group.rmdir()


def _held_up_seconds(group: Path) -> float:
    stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(stat["throttled_usec"]) / 1e6 if "throttled_usec" in stat else int(stat["throttled_time"]) / 1e9


@pytest.mark.parametrize(("function", "cpus", "held_up"), [("alone", 0.15, True), ("seldom", 0.9, False), ("alone", 8, False)])
def test_a_quota_is_named_where_it_holds_the_program_up(record: Recorder, function: str, cpus: float, held_up: bool) -> None:
    with quota(cpus) as held_up_seconds:
        run = record(PYTHON, PROGRAM, function, SECONDS)
        seconds = held_up_seconds()
    if held_up and seconds < SECONDS / 2:
        pytest.skip(f"the machine is too busy to give the program its quota: it was held up for {seconds:.1f} s")
    kinds = named(run)
    assert kinds.keys() == ({"throttled"} if held_up else set())
    if held_up:
        at, finding = kinds["throttled"]
        assert at < 3
        assert finding.share > 0.25  # of the whole run: importing torch takes long on a busy machine
        assert finding.sentence.startswith("The quota of its control group, 0.15 CPUs, holds the program up")
