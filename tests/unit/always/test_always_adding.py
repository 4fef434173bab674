"""Windows that cannot be read cost a line, and those that can be are kept."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from profiles import sealed
from store_rows import BEGIN_NS, HOUR_NS, window

import aiflame
from aiflame.always import adding, children
from aiflame.always import agent as agents
from aiflame.always.discovery import Filters, Found
from aiflame.always.facts import Facts
from aiflame.always.rows import rows_of
from aiflame.always.window import Settings, close_left, complete, left_behind, options_of
from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Clocks, Meta, start_ticks
from aiflame.profile.schema.control_schema import Feature, GpuSampling
from aiflame.recorder.place import ProfileLocation
from aiflame.recorder.run import prepare
from aiflame.recorder.supervise import wait_until
from aiflame.store import tables
from aiflame.store.layout import hour_of, hours, make_store, parts
from aiflame.store.listing import listed
from aiflame.store.reading import read_hour


@pytest.fixture
def store(tmp_path: Path) -> Folder:
    return make_store(tmp_path / "store")


def waiting(store: Folder, name: str, *files: str) -> Folder:
    folder = store.folder("waiting").new_folder(name)
    for file in files:
        folder.put(file, b"")
    return folder


def test_what_is_damaged_is_left_out_in_a_line_each(store: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    waiting(store, "1.no-facts", "done")
    Facts(pid=1).write(waiting(store, "2.no-profile", "done"))
    unfinished = waiting(store, "3.unfinished")
    tried = waiting(store, "4.tried", "done")
    tried.put("tried", b"...")
    store.folder("waiting").put("processes-1", b"{ half")
    row = {"process": 5, "pid": 5, "begin_ns": 1, "found_ns": 1, "seen_ns": 2, "command": "x\x1b[2J", "cgroup": "", "rank": -1}
    adding.write_processes(store, [row | {"cpu_ns": 7, "windows": 0, "obstacle": ""}])
    adding.add_waiting(store)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4, lines
    assert store.folder("waiting").names() == [unfinished.name]
    (hour,) = hours(store)
    rows = read_hour(store, hour)
    assert rows["processes"]["cpu_ns"].to_list() == [7]
    assert len(rows["windows"]) == 0


@pytest.mark.parametrize(
    ("ended_s", "samples_s", "left", "took_s"),
    [(11, (3, 4), False, 10), (500, (3, 4), True, 3), (0, (3, 4), True, 3), (500, (), True, None), (1, (), False, None)],
    ids=["its end was seen", "found later", "found after a restart of the machine", "nothing was seen", "no length"],
)
def test_the_length_of_a_window(tmp_path: Path, ended_s: int, samples_s: tuple[int, ...], left: bool, took_s: int | None) -> None:
    """It began at one second; a window whose recording process was killed ends with its last sample."""
    second = 10**9
    meta = Meta(started=Clocks(second, second, BEGIN_NS), ended=Clocks(ended_s * second, ended_s * second, BEGIN_NS), complete=True)
    rows = [{"time_ns": at * second, "weight": 1, "period_ns": second, "thread": 1} for at in samples_s]
    sealed(tmp_path / "w.aiflame", meta, threads=[{"tid": 7, "name": "main"}], cpu_samples=rows)
    of = rows_of(aiflame.open(tmp_path / "w.aiflame"), Facts(pid=7), left=left)
    assert (of and of["windows"]["took_ns"].to_list()) == (took_s and [took_s * second])


def test_the_notes_of_a_recording_are_kept(tmp_path: Path) -> None:
    second = 10**9
    meta = Meta(started=Clocks(second, second, BEGIN_NS), ended=Clocks(11 * second, 11 * second, BEGIN_NS), complete=True)
    sealed(tmp_path / "w.aiflame", meta.with_notes("process 7 has no samples", "another"), threads=[{"tid": 7, "name": "main"}])
    of = rows_of(aiflame.open(tmp_path / "w.aiflame"), Facts(pid=7))
    assert of is not None and of["windows"]["notes"].to_list() == ["process 7 has no samples\nanother"]


def test_a_window_that_breaks_its_reader_costs_a_line_and_not_the_others(
    store: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing key is an error that no reader foresees."""
    from aiflame.always import rows

    def rows_of(profile: object, facts: Facts, *, left: bool) -> tables.Tables:
        if facts.pid == 1:
            raise KeyError("no such table")
        return window(2, {("f",): 5})

    monkeypatch.setattr(rows, "rows_of", rows_of)
    monkeypatch.setattr("aiflame.open", lambda path: None)
    for pid in (1, 2):
        Facts(pid=pid).write(waiting(store, f"{pid}.x", "done"))
    adding.add_waiting(store)
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "aiflame: window 1.x cannot be read and is left out: KeyError: 'no such table'"
    assert store.folder("waiting").names() == []
    assert read_hour(store, hours(store)[0])["windows"]["window"].to_list() == [2]


def test_a_damaged_window_that_was_left_does_not_keep_the_others_from_their_end(store: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("1.damaged", "3.empty"):
        waiting(store, name).new_folder("w.aiflame")
    store.folder("waiting", "1.damaged", "w.aiflame").put("control", b"no page")
    close_left(store, ["1.damaged", "3.empty"])
    assert store.folder("waiting").names() == []
    assert "window 1.damaged is damaged and is removed" in capsys.readouterr().err


def test_damaged_parts_of_an_hour_do_not_keep_others_from_being_merged(store: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    for begin in (BEGIN_NS, BEGIN_NS + HOUR_NS):
        for number in range(2):
            tables.write(store, hour_of(begin), window(number, {("f",): 5}, begin_ns=begin))
    part = parts(store, hour_of(BEGIN_NS))[0]
    (store.path / "hours" / hour_of(BEGIN_NS) / part / "windows.parquet").write_bytes(b"rubbish")
    adding.merge_past(store)
    assert len(parts(store, hour_of(BEGIN_NS + HOUR_NS))) == 1
    assert "is not merged" in capsys.readouterr().err
    first, second = listed(store.path)
    assert "is damaged" in first.problem and (second.windows, second.problem) == (2, "")


def test_windows_that_are_being_recorded_do_not_wait(store: Folder) -> None:
    waiting(store, "1.recorded")
    waiting(store, "2.done", "done")
    store.folder("waiting").put("processes-1", b"[]")
    assert complete(store) == 1


def test_windows_are_recorded_without_gpus(tmp_path: Path) -> None:
    place = ProfileLocation(tmp_path / "w.aiflame", tmp_path / "w.aiflame", speaks=False)
    page, meta = prepare(place, options_of(Settings()), ["python"], overwrite=False)
    on = {feature.name for feature in Feature if page.features & feature}
    page.close()
    assert on == {"PYTHON", "OPENMP", "JIT", "MEANING", "NVTX", "ITT", "TRACE_MPI", "TRACE_NCCL", "TRACE_TORCH"}
    assert (meta.options["gpu_sampling"], meta.options["gpu_counters"]) == (GpuSampling.OFF, "off")


def test_a_full_disk_does_not_end_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """The processes that have ended are written when there is room again."""
    agent = agents.Agent(agents.Options(store=tmp_path / "store", filters=Filters(command="no such program"), write_every_s=1))
    agent._start_one = lambda key, work: None  # type: ignore[method-assign]  # Polars' threads do not live through our fork
    gone = Found(7, (1, 2), 0.0)
    agent._discovery.ended.append(gone)
    original = adding.write_processes
    monkeypatch.setattr(agents, "write_processes", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
    agent._write(0.0)
    assert agent._discovery.ended == [gone]
    monkeypatch.setattr(agents, "write_processes", original)
    agent._write(1.0)
    assert agent._discovery.ended == []
    assert "could not be written, and is tried again: no space left on device" in capfd.readouterr().err
    store = Folder.open(tmp_path / "store")
    adding.add_waiting(store)
    assert read_hour(store, hours(store)[0])["processes"]["pid"].to_list() == [7]


@pytest.mark.parametrize(("started_s", "own"), [(None, False), (0.0, True)])
def test_an_agents_own_start_comes_out_of_its_budget(started_s: float | None, own: bool, tmp_path: Path) -> None:
    agent = agents.Agent(agents.Options(store=tmp_path / "store", filters=Filters(command="no such program")), started_s)
    used = time.process_time()
    agent.turn(time.monotonic())
    assert (agent.spent_s >= used) == own


def test_an_agent_that_cannot_fork_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    agent = agents.Agent(agents.Options(store=tmp_path / "store", filters=Filters(command="no such program"), write_every_s=0.2))
    forks = []

    def fork() -> int:
        forks.append(len(list(Path("/proc/self/fd").iterdir())))
        if len(forks) == 3:
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # Polars has threads that do not block it
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    agent.run()
    assert len(forks) >= 3 and len(set(forks)) == 1
    assert capfd.readouterr().err == "aiflame: some work failed and is tried again: resource temporarily unavailable\n"


def test_a_full_disk_costs_old_hours_and_nothing_of_the_new_one(
    store: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for back in range(1, 4):
        begin = BEGIN_NS - back * HOUR_NS
        tables.write(store, hour_of(begin), window(back, {("f",): 1}, begin_ns=begin))
    original = tables.write

    def write(into: Folder, hour: str, rows: tables.Tables) -> None:
        if len(hours(into)) > 2:
            raise OSError(errno.ENOSPC, "no space")
        original(into, hour, rows)

    monkeypatch.setattr(tables, "write", write)
    adding._write(store, hour_of(BEGIN_NS), window(9, {("f",): 1}))
    assert hours(store) == [hour_of(BEGIN_NS - 2 * HOUR_NS), hour_of(BEGIN_NS - HOUR_NS), hour_of(BEGIN_NS)]
    assert capsys.readouterr().err == f"aiflame: the disk is full: hour {hour_of(BEGIN_NS - 3 * HOUR_NS)} removed from the store\n"
    monkeypatch.setattr(tables, "write", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "no space")))
    with pytest.raises(OSError, match="no space"):
        adding._write(store, hour_of(BEGIN_NS - 9 * HOUR_NS), window(10, {("f",): 1}))


def test_a_window_that_had_not_begun_when_its_child_was_killed_is_removed(store: Folder) -> None:
    waiting(store, "1.2.3").new_folder("w.aiflame")
    ours = waiting(store, "4.5.6")
    ours.put("recorder", f"{os.getpid()}.{start_ticks(os.getpid())}".encode())
    waiting(store, "7.8.9", "done")
    assert left_behind(store) == ["1.2.3"]
    close_left(store, ["1.2.3"])
    assert sorted(store.folder("waiting").names()) == ["4.5.6", "7.8.9"]


def test_hours_that_are_over_are_merged(store: Folder) -> None:
    for number in range(3):
        tables.write(store, hour_of(BEGIN_NS), window(number, {("f",): 5}))
    now = hour_of(time.time_ns())
    for number in range(3, 5):
        tables.write(store, now, window(number, {("f",): 5}))
    assert adding.has_parts_to_merge(store)
    adding.merge_past(store)
    assert not adding.has_parts_to_merge(store)
    assert len(parts(store, hour_of(BEGIN_NS))) == 1
    assert len(parts(store, now)) == 2
    assert read_hour(store, hour_of(BEGIN_NS))["values"]["value"].sum() == 15


def ended(child: children.Child, now: float = 0) -> children.Ended:
    until = time.monotonic() + 60
    while (result := children.end_of(child, now)) is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    return result


def fails() -> None:
    raise AiflameError("the reason")


def breaks() -> None:
    os.kill(os.getpid(), signal.SIGUSR1)


def told_to_end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def told_to_end_while_it_attaches() -> None:
    """A signal ends the window, and not the process: neither before nor behind it."""
    told_to_end()
    looks: list[float] = []

    def look(seconds: float) -> bool:
        looks.append(seconds)
        return False

    wait_until(look)
    told_to_end()
    raise AiflameError(f"{len(looks)} look")


def burns() -> None:
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass


def test_a_child_says_why_it_failed_and_what_it_cost() -> None:
    assert ended(children.start("a", lambda: None, 60)).problem == ""
    assert ended(children.start("a", fails, 60)).problem == "the reason"
    assert ended(children.start("a", breaks, 60)).problem == "killed by SIGUSR1"
    assert ended(children.start("a", lambda: json.loads("{"), 60)).problem.startswith("JSONDecodeError")
    assert ended(children.start("a", burns, 60)).cpu_s == pytest.approx(0.2, abs=0.15)
    assert ended(children.start("a", told_to_end, 60)).problem == "killed by SIGTERM"
    assert ended(children.start("a", lambda: time.sleep(600), 60), time.monotonic() + 61).problem == "killed by SIGKILL"


def test_a_child_that_attaches_ends_its_window_at_a_signal_and_no_other_work() -> None:
    assert ended(children.start("a", told_to_end_while_it_attaches, 60, attaches=True)).problem == "1 look"
