"""The recorder's looks at telemetry: their times, their cost, and the readings that remain when something goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aiflame
from aiflame.errors import AiflameError
from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Meta
from aiflame.profile.folder.telemetry_files import FOLDER, Header, Packer, Series, pack_header, read_header
from aiflame.profile.sealing.seal import seal
from aiflame.profile.sealing.telemetry import read
from aiflame.recorder.options import parse_telemetry
from aiflame.recorder.sources.base import Look
from aiflame.recorder.telemetry import SHARE, Telemetry, _Budget, _Scheduled

MS = 1_000_000


@dataclass(eq=False)
class Made:
    """A source that counts its looks; a test chooses the action of a look."""

    name: str = "made"
    every: int = 1
    thread: str = "system"
    does: Callable[[int], None] = lambda number: None
    looks: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    enough: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> Header | None:
        return Header(self.name, (Series("", "looks", "looks"),))

    def look(self) -> Iterable[Look]:
        self.does(self.looks)
        self.looks += 1
        if self.looks >= 5:
            self.enough.set()
        return [(time.monotonic_ns(), 0, [float(self.looks)])]

    def end(self) -> None:
        self.ended.set()


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "p.aiflame"
    (path / "spool").mkdir(parents=True)
    Meta().write(Folder.open(path))
    return path


def values(profile: Path, source: str = "made") -> list[float]:
    telemetry = read(Folder.open(profile).folder(FOLDER))
    return telemetry.values.join(telemetry.series.filter(pl.col("source") == source), on="series")["value"].to_list()


def test_every_look_is_in_the_profile(profile: Path) -> None:
    source = Made()
    telemetry = Telemetry(Folder.open(profile), ControlPage.create(Folder.open(profile)), 5, [source])
    telemetry.start()
    assert source.enough.wait(60)
    assert telemetry.finish() == []
    assert source.ended.is_set()
    assert values(profile) == [float(number + 1) for number in range(source.looks)]


def test_a_recording_that_ends_at_once_has_a_first_look_or_none_and_no_note(profile: Path) -> None:
    telemetry = Telemetry(Folder.open(profile), ControlPage.create(Folder.open(profile)), 50, [Made()])
    telemetry.start()
    assert telemetry.finish() == []


def test_a_look_that_never_ends_holds_nobody_up_but_its_own(profile: Path) -> None:
    never = threading.Event()

    def waits(number: int) -> None:
        never.wait()

    hangs = Made("hangs", thread="driver", does=waits)
    other = Made()
    telemetry = Telemetry(Folder.open(profile), ControlPage.create(Folder.open(profile)), 5, [hangs, other])
    telemetry.start()
    assert other.enough.wait(60)
    (note,) = telemetry.finish()
    never.set()
    assert "driver" in note
    assert len(values(profile)) == other.looks


def test_a_source_that_fails_ends_alone_with_a_note(profile: Path) -> None:
    def fails(number: int) -> None:
        if number == 2:
            raise OSError(19, "No such device")

    broken, other = Made("broken", does=fails), Made()
    telemetry = Telemetry(Folder.open(profile), ControlPage.create(Folder.open(profile)), 5, [broken, other])
    telemetry.start()
    assert other.enough.wait(60)
    assert telemetry.finish() == ["telemetry of broken ended: No such device"]
    assert values(profile, "broken") == [1.0, 2.0]


def test_it_takes_no_more_room_than_is_allowed(profile: Path) -> None:
    """Room for a file's first 16 KiB, and not for its second."""
    page = ControlPage.create(Folder.open(profile), max_bytes=24 << 10)
    wide = Made("wide")
    wide.begin = lambda: Header("wide", tuple(Series("", f"n{at}", "") for at in range(100)))  # type: ignore[method-assign]
    wide.look = lambda: [(1, 0, [0.0] * 100)] * 5  # type: ignore[method-assign]
    telemetry = Telemetry(Folder.open(profile), page, 5, [wide])
    telemetry.start()
    assert wide.ended.wait(60)
    telemetry.finish()
    assert sum(file.stat().st_size for file in (profile / FOLDER).iterdir()) <= 16 << 10
    assert page.max_bytes == 8 << 10


class Judged:
    """A budget whose seconds go by as a test says: looks that took so long each, then a judgement."""

    def __init__(self, *of: Made, interval_ms: int = 50) -> None:
        self.budget = _Budget(interval_ms * MS, SHARE)
        self.scheduled = [_Scheduled(one, Folder.open(os.curdir), one.name) for one in of]
        self.budget.add(self.scheduled)
        self.now = time.monotonic_ns()

    def second(self, *took_ms: float) -> list[float]:
        """Intervals (ms) after a second, or the look after it, in which a look at each took so long (CPU time)."""
        for one, took in zip(self.scheduled, took_ms, strict=True):
            one.looks = max(1_000 * MS // one.interval_ns, 1)
            one.spent_ns = round(one.looks * took * MS)
        self.now += 2_000 * MS
        self.budget.judge(self.now)
        return [one.interval_ns / MS for one in self.scheduled]

    def load(self) -> float:
        return sum(one.cost_ns / one.interval_ns for one in self.scheduled)


def test_looks_of_a_driver_that_takes_two_milliseconds_are_taken_as_often_as_asked() -> None:
    judged = Judged(Made("nvidia"), Made("cpu"))
    assert judged.second(2.0, 0.2) == [50, 50]
    assert judged.budget.notes() == []


def test_a_costly_source_is_read_more_rarely_and_a_note_says_so() -> None:
    """A twentieth of a core: 20 ms of every 50 is 8 times too much, 0.1 ms every 50 stays."""
    judged = Judged(Made("heavy"), Made("light"))
    assert judged.second(20, 0.1) == [800, 50]
    assert judged.load() <= SHARE
    (note,) = judged.budget.notes()
    assert "heavy was read every 800 ms only, as a look at it took 20.0 ms" in note


@pytest.mark.parametrize(("interval_ms", "took_ms", "becomes_ms"), [(50, 4, 100), (50, 9, 200), (5, 6, 160)])
def test_up_to_200_milliseconds_are_not_worth_a_line(interval_ms: int, took_ms: float, becomes_ms: int) -> None:
    judged = Judged(Made("nvidia"), interval_ms=interval_ms)
    assert judged.second(took_ms) == [becomes_ms]
    assert judged.budget.notes() == []


def test_no_note_calls_a_source_rare_that_was_meant_to_be_read_rarely() -> None:
    judged = Judged(Made("frequencies", every=20))
    assert judged.second(80) == [2_000]
    assert judged.budget.notes() == []


def test_looks_that_have_become_quick_are_taken_as_often_as_before_and_nothing_is_said() -> None:
    """The first looks wake a driver up."""
    judged = Judged(Made("nvidia"), Made("state", every=4))
    assert judged.second(40, 5) == [1_600, 200]
    assert judged.second(1, 2) == [50, 200]
    assert judged.budget.notes() == []


def test_an_interval_that_just_fits_does_not_go_to_and_fro() -> None:
    """2.2 ms every 50 ms would be 4.4% of a core: allowed, but once it was too much, there is no room to go back to it."""
    judged = Judged(Made("nvidia"))
    assert judged.second(2.6) == [100]
    assert [judged.second(took) for took in (2.2, 2.6, 2.2)] == [[100], [100], [100]]


def test_no_interval_is_longer_than_ten_seconds_and_more() -> None:
    judged = Judged(Made("hopeless"))
    (interval,) = judged.second(60_000)
    assert 10_000 <= interval < 20_000


@pytest.mark.parametrize(("text", "ms"), [("50", 50), ("off", 0), ("OFF", 0), ("1000", 1000)])
def test_intervals(text: str, ms: int) -> None:
    assert parse_telemetry(text) == ms


@pytest.mark.parametrize("text", ["", "0", "4", "-50", "1.5", "fast", "99999999"])
def test_wrong_intervals_are_errors(text: str) -> None:
    with pytest.raises(AiflameError, match="--telemetry"):
        parse_telemetry(text)


# Files


def file(profile: Path, data: bytes) -> None:
    (profile / FOLDER).mkdir(exist_ok=True)
    (profile / FOLDER / "00-made.records").write_bytes(data)


HEADER = pack_header(Header("made", (Series("disk", "read", "bytes/s", 512, rate=True), Series("", "load", "%"))))
RECORDS = [Packer(2).pack(number * 1_000_000_000, 0, [10.0 * number, float(number)]) for number in range(1, 5)]


def test_a_file_that_is_cut_off_anywhere_keeps_its_whole_records(profile: Path) -> None:
    whole = HEADER + b"".join(RECORDS)
    for end in range(len(HEADER), len(whole)):
        file(profile, whole[:end])
        telemetry = read(Folder.open(profile).folder(FOLDER))
        assert telemetry.notes == []
        assert len(telemetry.values.filter(pl.col("series") == 1)) == (end - len(HEADER)) // len(RECORDS[0])


def test_a_record_that_was_changed_is_left_out_with_a_note(profile: Path) -> None:
    for at in range(len(RECORDS[1])):
        changed = bytearray(RECORDS[1])
        changed[at] ^= 0x40
        file(profile, HEADER + RECORDS[0] + changed + RECORDS[2] + RECORDS[3])
        telemetry = read(Folder.open(profile).folder(FOLDER))
        assert telemetry.values.filter(pl.col("series") == 1)["value"].to_list() == [1.0, 3.0, 4.0]
        assert telemetry.notes == ["telemetry of made: 1 damaged records were left out"]


def test_a_rate_is_over_the_looks_that_are_there(profile: Path) -> None:
    file(profile, HEADER + RECORDS[0] + RECORDS[3])
    telemetry = read(Folder.open(profile).folder(FOLDER))
    assert telemetry.values.filter(pl.col("series") == 0)["value"].to_list() == [5120.0]


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200), st.integers(0, len(HEADER)))
def test_any_bytes_are_a_note_at_most(tmp_path_factory: pytest.TempPathFactory, data: bytes, kept: int) -> None:
    profile = tmp_path_factory.mktemp("telemetry")
    file(profile, HEADER[:kept] + data)
    telemetry = read(Folder.open(profile).folder(FOLDER))
    assert telemetry.values.is_empty() or kept == len(HEADER)
    assert len(telemetry.notes) <= 1


def test_a_file_that_a_killed_recorder_had_only_just_made_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "02-memory.records").touch()
    assert read(Folder.open(tmp_path)).notes == []


@pytest.mark.parametrize(
    "header", ['{"source": 1}', "[]", "{}", '{"source": "x", "series": [7], "unreadable": [], "keyed": false}', "\xff"]
)
def test_a_header_of_something_else_is_refused(header: str) -> None:
    data = header.encode("latin-1")
    with pytest.raises(ValueError, match=r"damaged|Expecting|delimiter|decode"):
        read_header(b"AIFLAMES" + (1).to_bytes(4, "little") + len(data).to_bytes(4, "little") + data)


def test_a_damaged_file_does_not_keep_a_profile_from_being_sealed(profile: Path) -> None:
    file(profile, b"nothing of ours")
    (profile / FOLDER / "01-other.records").write_bytes(HEADER + b"".join(RECORDS))
    seal(Folder.open(profile))
    assert aiflame.open(profile).sql("SELECT count(*) AS n FROM telemetry")["n"][0] == 7
    assert any("00-made" in note for note in aiflame.open(profile).store.notes())
    assert not (profile / FOLDER).exists()


def test_a_killed_recorder_loses_nothing_that_it_wrote(profile: Path) -> None:
    """The process that looks is killed; the profile then has all of its looks but, perhaps, the one being written."""
    page = ControlPage.create(Folder.open(profile), recorder_pid=1 << 22)
    ready, tells = os.pipe()
    child = os.fork()
    if child == 0:
        source = Made()
        Telemetry(Folder.open(profile), page, 5, [source]).start()
        source.enough.wait(60)
        os.write(tells, b"x")
        time.sleep(60)
        os._exit(0)
    assert os.read(ready, 1) == b"x"
    os.kill(child, 9)
    os.waitpid(child, 0)
    seal(Folder.open(profile))
    stored = aiflame.open(profile).sql("SELECT value FROM telemetry ORDER BY value")["value"].to_list()
    assert len(stored) >= 4  # the fifth may not be written yet
    assert stored == [float(number + 1) for number in range(len(stored))]


# The command


@pytest.mark.parametrize(("options", "there"), [([], True), (["--telemetry", "off"], False)])
def test_a_recording_has_looks_at_the_machine_unless_they_are_off(tmp_path: Path, options: list[str], there: bool) -> None:
    path = tmp_path / "p.aiflame"
    subprocess.run(
        [sys.executable, "-m", "aiflame", "record", "-q", "-o", str(path), *options, "--", "sleep", "2" if there else "0"], check=True
    )
    opened = aiflame.open(path)
    assert opened.store.has("telemetry") == there
    if there:
        memory = opened.sql("SELECT value FROM telemetry JOIN telemetry_series USING (series) WHERE source = 'memory' AND name = 'used'")
        assert len(memory) >= 2
        assert memory["value"].min() > 1 << 20
