"""Findings about shortages of CPUs and memory, from the kernel's account."""

from __future__ import annotations

from pathlib import Path

import pytest
from stories import MAIN, Story, cpu_step
from story_findings import found
from telemetries import told

from aiflame.analyze.finding import Finding
from aiflame.analyze.scheduling import uneven_samples
from aiflame.attribute.analysis import Analysis

Series = tuple[str, str, str, str, dict[int, float]]
MS = 1_000_000
LOOKS = 30
GOMP = ("libgomp.so.1", "gomp_thread_start")
THREAD = ("Thread.run", "/usr/lib/python3.12/threading.py")
WORK = ("work", "/app/work.py", 7)


def constant(value: float, looks: int = LOOKS) -> dict[int, float]:
    return {look * 200 * MS: value for look in range(looks)}


def kernel(
    running: float = 1,
    ready: float = 0,
    cpus: int = 2,
    faults: float = 10,
    kernel: float = 1,
    disk: float = 0,
    looks: int = LOOKS,
    pids: int = 1,
    turns: float = 250,
) -> list[Series]:
    """Series of processes that are all alike; `running` and `ready` of all of them together, `kernel` in percent of a CPU."""
    series = []
    for pid in range(pids):
        names = {
            "running threads": running / pids,
            "threads without a CPU": ready / pids,
            "page faults": faults / pids,
            "page faults from disk": disk / pids,
            "time in the kernel": kernel / pids,
            "turns on a CPU": turns / pids,
        }
        series += [("process", f"pid {pid}", name, "x", constant(value, looks - 1)) for name, value in names.items()]
        series.append(("process", f"pid {pid}", "usable CPUs", "CPUs", constant(cpus, looks)))
    return series


def of_kernel(path: Path, series: list[Series], *frames: object, threads: int = 1) -> dict[str, Finding]:
    story = Story()
    ids = [1] + [story.thread(f"worker {number}") for number in range(threads - 1)]
    for moment in range(120):
        for thread in ids:
            story.met(moment * 50_000, *(frames if thread > 1 else ()) or (MAIN,), thread=thread, clock=0)
    story.tables["thread_ends"] = [{"thread": thread, "end_ns": 6_000 * MS, "cpu_ns": 0} for thread in ids]
    story.tables |= told(*series)
    kinds = ("oversubscribed", "throttled", "page-faults", "swapping")
    return {kind: one for kind, one in found(story, path).items() if kind.startswith(kinds)}


@pytest.mark.parametrize(
    ("frames", "kind", "whose"),
    [
        ((THREAD, WORK, "SHA256_Update"), "oversubscribed-python", ": 7 of them are Python's"),
        (("start", WORK), "oversubscribed-native", ": 7 of them are native code's"),
    ],
)
def test_more_threads_than_cpus(tmp_path: Path, frames: tuple[object, ...], kind: str, whose: str) -> None:
    kinds = of_kernel(tmp_path, kernel(running=2, ready=6), *frames, threads=8)
    assert list(kinds) == [kind]
    sentence = "For 100% of the time 8 threads at once want the 2 CPUs that the program may use, and wait for one 75% of it"
    assert kinds[kind].sentence == sentence + whose
    assert kinds[kind].share == pytest.approx(0.75)


def test_processes_that_are_bound_to_cpus_of_their_own(tmp_path: Path) -> None:
    """Eight ranks, each with a CPU to itself: eight CPUs, of which no rank sees more than one."""
    assert of_kernel(tmp_path, kernel(running=8, ready=3, cpus=1, pids=8)) == {}


def test_processes_of_several_hosts_have_the_cpus_of_all(tmp_path: Path) -> None:
    def on_two(series: list[Series]) -> list[Series]:
        return [(source, f"node{host}: {device}", name, unit, values) for host in (0, 1) for source, device, name, unit, values in series]

    assert of_kernel(tmp_path / "enough", on_two(kernel(running=2, ready=0.9))) == {}
    (one,) = of_kernel(tmp_path / "crowded", on_two(kernel(running=2, ready=6))).values()
    assert "16 threads at once want the 4 CPUs that the program may use" in one.sentence


def test_threads_that_share_the_interpreters_lock_do_not_want_cpus(tmp_path: Path) -> None:
    assert of_kernel(tmp_path, kernel(running=1, ready=4), THREAD, WORK, threads=8) == {}


def test_processes_want_cpus_together(tmp_path: Path) -> None:
    assert "oversubscribed-processes" in of_kernel(tmp_path, kernel(running=2, ready=6, pids=8))


@pytest.mark.parametrize(
    "series",
    [
        kernel(running=1, ready=2),
        kernel(running=0.5, ready=0.5),
        kernel(running=2, ready=6, cpus=8),
        kernel(running=2, ready=6, looks=19),
        kernel(running=3.5, ready=0.2),
        kernel(running=0.8, ready=6),
    ],
    ids=["few", "another program", "as many CPUs", "few looks", "they hardly wait", "other programs have the CPUs"],
)
def test_near_misses_of_threads(tmp_path: Path, series: list[Series]) -> None:
    assert of_kernel(tmp_path, series) == {}


@pytest.mark.parametrize(
    ("running", "ready", "kind"),
    [(0.6, 1.2, "crowded-openmp"), (1.4, 1.2, "waiting"), (0.6, 0.2, "waiting")],
    ids=["other programs have the CPUs", "it has them itself", "no thread wants for one"],
)
def test_threads_that_wait_for_one_without_a_cpu(tmp_path: Path, running: float, ready: float, kind: str) -> None:
    story = Story()
    for moment in range(120):
        story.met(moment * 50_000, MAIN, *(["gomp_team_barrier_wait_end"] if moment < 60 else []), clock=0)
    story.tables |= told(*kernel(running=running, ready=ready))
    sentence = "50% of CPU time is spent by threads that wait for each other in OpenMP, most at train.py:12"
    crowded = ", while other programs have the CPUs that some of them need"
    assert found(story, tmp_path)[kind].sentence == sentence + (crowded if kind == "crowded-openmp" else "")


def limited(cpus: float, used: float, held_up: float) -> list[Series]:
    names = {"limit": cpus, "used": used, "held up": held_up}
    return [("cgroup", "", name, "CPUs", constant(value)) for name, value in names.items()]


@pytest.mark.parametrize(("cpus", "used", "held_up", "share"), [(0.5, 0.5, 0.5, 50), (2, 2, 6, 75), (0.5, 0.05, 0.05, 0), (2, 1.9, 0.1, 0)])
def test_a_quota(tmp_path: Path, cpus: float, used: float, held_up: float, share: int) -> None:
    kinds = of_kernel(tmp_path, kernel(running=used, cpus=64) + limited(cpus, used, held_up))
    assert kinds.keys() == ({"throttled"} if share else set())
    if share:
        text = f"{cpus:g} CPU" + ("s" if cpus != 1 else "")
        assert kinds["throttled"].sentence == f"The quota of its control group, {text}, holds the program up {share}% of the time"


def test_threads_share_the_cpus_of_a_quota(tmp_path: Path) -> None:
    kinds = of_kernel(tmp_path, kernel(running=2, ready=6, cpus=64) + limited(2, 2, 6))
    assert kinds.keys() == {"throttled", "oversubscribed-processes"}


@pytest.mark.parametrize(
    ("faults", "kernel_percent", "resident", "named"),
    [(200_000, 40, 0, True), (200_000, 10, 0, False), (20_000, 40, 0, False), (200_000, 40, 900_000 * 4096, False)],
    ids=["again and again", "quick", "other calls", "memory that it keeps"],
)
def test_page_faults(tmp_path: Path, faults: float, kernel_percent: float, resident: float, named: bool) -> None:
    memory: list[Series] = [("process", "pid 0", "resident memory", "bytes", constant(resident))]
    kinds = of_kernel(tmp_path, kernel(faults=faults, kernel=kernel_percent) + memory)
    assert kinds.keys() == ({"page-faults"} if named else set())
    if named:
        given = "781 MiB of new memory each second (200,000 page faults), and takes it back"
        assert kinds["page-faults"].sentence == f"40% of CPU time is in the kernel, which gives the program {given}"


@pytest.mark.parametrize(("share", "disk", "named"), [(40, 500, True), (5, 500, False), (40, 5, False)])
def test_swapping(tmp_path: Path, share: float, disk: float, named: bool) -> None:
    pressure = [("pressure", "memory", "some waited", "%", constant(share))]
    kinds = of_kernel(tmp_path, kernel(disk=disk) + pressure)
    assert kinds.keys() == ({"swapping"} if named else set())
    if named:
        reads = "this one reads 500 pages a second back from disk"
        assert kinds["swapping"].sentence == f"Memory is short: programs wait for it 40% of the time, and {reads}"


def test_short_turns_while_others_have_the_cpus_make_shares_uneven(tmp_path: Path) -> None:
    story = Story()
    story.tables |= told(*kernel(running=0.5, ready=0.5, turns=1_000))
    assert uneven_samples(Analysis(story.profile(tmp_path))) == (
        "The program ran for 0.5 ms at a time, and was ready for a CPU that others had for 50% of its time: samples are taken at the"
        " kernel's clock ticks, so shares of CPU time may be several points off; record while the machine is less busy"
    )


@pytest.mark.parametrize(
    "series",
    [
        kernel(running=0.5, ready=0.1, turns=1_000),
        kernel(running=0.5, ready=0.5, turns=130),
        kernel(running=0.5, ready=0.5, turns=1_000, looks=15),
        [one for one in kernel(running=0.5, ready=0.5) if one[2] != "turns on a CPU"],
    ],
    ids=["own CPU", "long turns", "few looks", "older profile"],
)
def test_shares_that_are_even(tmp_path: Path, series: list[Series]) -> None:
    story = Story()
    story.tables |= told(*series)
    assert not uneven_samples(Analysis(story.profile(tmp_path)))


def test_cpu_time_counts_also_for_the_time_in_which_others_have_the_cpus(tmp_path: Path) -> None:
    won = []
    for name, ready in (("alone", 0.0), ("crowded", 0.4)):
        story = Story()
        for moment in range(120):
            story.met(moment * 50_000, MAIN, "sgemm", clock=0)
        story.tables["thread_ends"] = [{"thread": 1, "end_ns": 6_000 * MS, "cpu_ns": 0}]
        story.tables |= told(*kernel(running=0.1, ready=ready))
        won.append(found(story, tmp_path / name)["hot-function"].recoverable)
    assert won[1] > won[0] + 0.1


@pytest.mark.parametrize(
    ("series", "kind", "says"),
    [
        (kernel(running=2, ready=6, pids=8), "oversubscribed-processes", "For 100% of the whole run 8 threads"),
        (limited(1, 1, 1), "throttled", "holds the program up 50% of the whole run"),
        (kernel(running=1, faults=200_000, kernel=50), "page-faults", "In the whole run, 50% of CPU time is in the kernel"),
    ],
)
def test_what_the_kernel_counts_is_of_the_whole_run(tmp_path: Path, series: list[Series], kind: str, says: str) -> None:
    """It was asked five times a second, too seldom for steps."""
    story = Story()
    for number in range(8):
        cpu_step(story, 500_000 * number + 1_000_000, 20, MAIN, apart=20_000, lasts=500_000)
    story.tables |= told(*series, *(kernel() if kind == "throttled" else []))
    finding = found(story, tmp_path)[kind]
    assert (says in finding.sentence, finding.of_whole_run) == (True, True), finding.sentence
