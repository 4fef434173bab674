"""The flight recorder on tables with known rows: the events at which it keeps a window, and the rows in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from spool_files import ProcessFiles

import aiflame
from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Clocks, Kept, Meta
from aiflame.profile.schema.all_tables import HEADER_BYTES
from aiflame.profile.schema.enums import RegionApi
from aiflame.recorder.options import RecordOptions, parse_last
from aiflame.recorder.place import ProfileLocation
from aiflame.recorder.ring import requests
from aiflame.recorder.ring.flight import SETTLE_NS, Flight
from aiflame.recorder.ring.snapshot import REQUESTS, snapshot
from aiflame.recorder.ring.steps import Step, Steps
from aiflame.recorder.ring.triggers import Triggers, Watcher, parse_on
from aiflame.recorder.ring.trim import Trimmer

MS, SECOND = 1_000_000, 1_000_000_000
META = Meta(started=Clocks(0, 0, 0), options={"last_ms": 10_000})


def ring_of(folder: Path, *processes: ProcessFiles) -> Folder:
    ring = Folder.new(folder / "ring.aiflame")
    META.put(ring)
    ring.new_folder("spool")
    for process in processes:
        process.write(ring.path)
    ControlPage.create(ring, recorder_pid=0).close()
    ring.new_folder(REQUESTS)
    return ring


def flight(ring: Folder, **options: object) -> Flight:
    place = ProfileLocation(ring.path, ring.path)
    return Flight(place, ControlPage.open(ring), RecordOptions(last_ms=10_000, **options), META)  # type: ignore[arg-type]


def stepping(name: str, took_ms: list[int], domain: str = "", api: int = 0) -> ProcessFiles:
    """A process with a region for each step, one right behind the other from 1 s."""
    process, begin = ProcessFiles(), SECOND
    for one in took_ms:
        row = process.add("regions", name=name, domain=domain, api=api, begin_ns=begin)
        begin += one * MS
        process.add("region_ends", region=row, end_ns=begin)
    return process


SLOW = [100] * 12 + [450] + [100] * 3


@pytest.mark.parametrize("name", ["step", "train_step", "Iteration 5", "ProfilerStep#3"])
def test_a_named_step_that_is_slow(tmp_path: Path, name: str) -> None:
    ring = ring_of(tmp_path, stepping(name, SLOW))
    steps = Steps(ring.folder("spool")).ended(0)
    assert [step.took_ns // MS for step in steps] == SLOW
    causes = Watcher(Triggers(slow_step=3)).causes(steps, 4 * SECOND)
    assert causes == [("slow-step-12", "step 12 took 0.45 s, 4.5 times the median", SECOND + 1650 * MS)]


def test_steps_of_an_optimizer_end_where_it_does(tmp_path: Path) -> None:
    """The first has no begin."""
    ring = ring_of(tmp_path, stepping("optimizer", SLOW, "aiflame", int(RegionApi.AUTOMATIC)))
    steps = Steps(ring.folder("spool")).ended(0)
    assert [step.took_ns // MS for step in steps] == SLOW[1:]


def test_other_regions_are_no_steps(tmp_path: Path) -> None:
    assert not Steps(ring_of(tmp_path, stepping("stepfather", SLOW)).folder("spool")).ended(0)


def test_steps_are_told_once(tmp_path: Path) -> None:
    steps = Steps(ring_of(tmp_path, stepping("step", SLOW)).folder("spool"))
    assert len(steps.ended(0)) == len(SLOW)
    assert not steps.ended(1)


def test_a_hang_is_told_once_until_a_step_comes() -> None:
    watcher = Watcher(Triggers(hang_s=60))
    assert not watcher.causes([], 500 * SECOND)  # no step has ever come
    assert not watcher.causes([Step(0, 0, 500 * SECOND, 0)], 501 * SECOND)
    assert not watcher.causes([], 559 * SECOND)
    assert watcher.causes([], 560 * SECOND) == [("hang", "no step has ended for 60 s", 560 * SECOND)]
    assert not watcher.causes([], 700 * SECOND)
    assert not watcher.causes([Step(1, 0, 701 * SECOND, 0)], 701 * SECOND)
    assert [slug for slug, _, _ in watcher.causes([], 761 * SECOND)] == ["hang"]


def test_options() -> None:
    assert parse_on("slow-step:3x,hang:2m,signal:USR2") == Triggers(3.0, 120.0, (12,))
    assert (parse_last("90"), parse_last("2m"), parse_last("1h"), parse_last("")) == (90_000, 120_000, 3_600_000, 0)
    for text in ("slow-step:1x", "slow-step", "hang:0", "signal:KILL", "fire"):
        with pytest.raises(AiflameError, match="--on"):
            RecordOptions(last_ms=1000, on=text)
    for text in ("0", "2d", "-1s", "25h", "0.5s", "m"):
        with pytest.raises(AiflameError, match="--last"):
            parse_last(text)


def test_the_window_is_exact(tmp_path: Path) -> None:
    """An event that ended in it is there whole; a process that ended before it is not."""
    process = ProcessFiles()
    node = process.add("stacks", frame=77)
    thread = process.add("threads", tid=100)
    for second in range(1, 31):
        process.add("cpu_samples", thread=thread, stack=node, weight=1, time_ns=second * SECOND, period_ns=5 * MS)
        process.add("launches", thread=thread, stack=node, begin_ns=second * SECOND - 1, end_ns=second * SECOND, correlation=second)
        window = process.add("gpu_windows", begin_ns=second * SECOND - 1, end_ns=second * SECOND, samples=1)
        process.add("gpu_samples", window=window, count=second)
    old = process.add("regions", name="long ended", begin_ns=SECOND)
    enclosing = process.add("regions", name="epoch", begin_ns=2 * SECOND)
    process.add("region_ends", region=old, end_ns=3 * SECOND)
    process.add("region_ends", region=enclosing, end_ns=25 * SECOND)
    process.add("regions", name="open", begin_ns=24 * SECOND)
    gone = ProcessFiles(pid=200, start_ns=2_000)
    gone.add("threads", tid=200)
    gone.add("process_ends", end_ns=9 * SECOND)
    ring = ring_of(tmp_path, process, gone)
    snapshot(ring, tmp_path / "kept.aiflame", Kept("a test", 20 * SECOND, 26 * SECOND), META)
    profile = aiflame.open(tmp_path / "kept.aiflame")
    times = [second * SECOND for second in range(20, 27)]
    assert profile.table("cpu_samples")["time_ns"].to_list() == times
    assert profile.table("launches")["end_ns"].to_list() == times
    assert profile.table("gpu_samples")["count"].to_list() == list(range(20, 27))
    assert profile.table("regions")["name"].to_list() == ["epoch", "open"]
    assert profile.table("processes")["pid"].to_list() == [100]
    assert profile.meta.kept == Kept("a test", 20 * SECOND, 26 * SECOND)
    assert not [note for note in profile.store.notes() if "missing" in note or "damaged" in note]


def test_a_ring_without_end_has_the_last_events(tmp_path: Path) -> None:
    """Its recorder was killed: the newest event is its end."""
    process = ProcessFiles()
    node, thread = process.add("stacks", frame=77), process.add("threads", tid=100)
    for second in range(1, 31):
        process.add("cpu_samples", thread=thread, stack=node, weight=1, time_ns=second * SECOND, period_ns=5 * MS)
    ring = ring_of(tmp_path, process)
    profile = aiflame.open(ring.path)
    assert profile.table("cpu_samples")["time_ns"].to_list() == [second * SECOND for second in range(20, 31)]
    assert profile.meta.kept is not None
    assert profile.meta.kept.cause == "the recorder was killed"


def long_table(samples: int) -> ProcessFiles:
    process = ProcessFiles()
    process.add("cpu_samples", weight=1, time_ns=1)
    process.records["cpu_samples"] = []
    for number in range(samples):
        process.add("cpu_samples", weight=1, time_ns=(number + 1) * SECOND)
    return process


def test_old_rows_give_their_disk_back(tmp_path: Path) -> None:
    """20,000 samples a second apart: the last 256 KiB stay, and every younger row."""
    process = long_table(20_000)
    ring = ring_of(tmp_path, process)
    table = next(ring.path.rglob("cpu_samples.table"))
    before = table.stat()
    freed = Trimmer(ring).trim(12_000 * SECOND)
    after = table.stat()
    assert after.st_size == before.st_size
    assert (before.st_blocks - after.st_blocks) * 512 == freed
    size = len(process.records["cpu_samples"][0])
    assert freed >= 11_000 * size // 4096 * 4096
    data = table.read_bytes()
    for number in range(12_000, 20_000):
        at = HEADER_BYTES + number * size
        assert data[at : at + size] == process.records["cpu_samples"][number]


def test_a_late_row_in_a_hole_stays_until_it_is_old(tmp_path: Path) -> None:
    process = long_table(20_000)
    ring = ring_of(tmp_path, process)
    table, trimmer = next(ring.path.rglob("cpu_samples.table")), Trimmer(ring)
    trimmer.trim(12_000 * SECOND)
    late = process.records["cpu_samples"][19_000]
    at = HEADER_BYTES + 5_000 * len(late)
    with table.open("r+b") as file:
        os.pwrite(file.fileno(), late, at)
    trimmer.trim(18_000 * SECOND)
    assert table.read_bytes()[at : at + len(late)] == late
    trimmer.trim(19_500 * SECOND)
    assert not any(table.read_bytes()[at : at + len(late)])


def test_processes_that_ended_before_the_window_go(tmp_path: Path) -> None:
    ended, killed, runs = ProcessFiles(pid=4_000_001), ProcessFiles(pid=4_000_002), ProcessFiles(pid=os.getpid())
    ended.add("process_ends", end_ns=5 * SECOND)
    killed.add("cpu_samples", time_ns=6 * SECOND)
    ring = ring_of(tmp_path, ended, killed, runs)
    trimmer = Trimmer(ring)
    assert trimmer.remove_ended(5 * SECOND) == []
    assert trimmer.remove_ended(5 * SECOND + 1) == ["4000001.1000"]
    assert trimmer.remove_ended(7 * SECOND) == ["4000002.1000"]
    assert list(ring.folder("spool").names()) == [f"{os.getpid()}.1000"]


def test_requests_of_one_moment_make_one_profile_and_old_profiles_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = ring_of(tmp_path, ProcessFiles())
    monkeypatch.setattr("aiflame.recorder.ring.flight.can_seal", lambda: False)
    recorder = flight(ring, keep=2)
    for number in range(4):
        for name in ("a", "b"):
            requests.ask(ring, f"reason {number}", (20 + 10 * number) * SECOND, f"{name}{number}")
    recorder.look(60 * SECOND)
    recorder.finish()
    assert [path.name.partition("reason-")[2] for path in sorted(tmp_path.glob("ring-*"))] == ["2.aiflame", "3.aiflame"]
    answers = {requests.take_answer(ring, f"{name}{number}") for name in ("a", "b") for number in range(4)}
    assert len(answers) == 4
    assert None not in answers


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    ring = ring_of(tmp_path, long_table(2_000))
    recorder = flight(ring)
    requests.ask(ring, "why", 20 * SECOND, "one")
    recorder.look(21 * SECOND)
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))
    try:
        recorder.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.glob("ring-*"))
    assert "could not be kept (why)" in capfd.readouterr().err
    assert (requests.take_answer(ring, "one") or "").startswith("!")


def test_a_sealer_that_nobody_can_wait_for_has_ended(tmp_path: Path) -> None:
    """Where SIGCHLD is ignored, the kernel forgets children; here the child has been waited for already."""
    recorder = flight(ring_of(tmp_path))
    recorder._sealer = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(recorder._sealer, 0)
    recorder()
    assert (recorder.notes, recorder._sealer) == ([], 0)


def test_a_ring_larger_than_its_bound_gets_a_shorter_window(tmp_path: Path) -> None:
    process = long_table(20_000)
    ring = ring_of(tmp_path, process)
    recorder = Flight(
        ProfileLocation(ring.path, ring.path), ControlPage.open(ring), RecordOptions(last_ms=86_400_000, max_bytes=600_000), META
    )
    recorder.trim(20_000 * SECOND + SETTLE_NS)
    assert sum(file.stat().st_blocks * 512 for file in ring.path.rglob("*") if file.is_file()) < 600_000
    kept = recorder.kept_at_end(0)
    assert kept.begin_ns > 5_000 * SECOND
