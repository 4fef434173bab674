"""The recorder's tables of waiting threads are read back whole, and numbered behind the process's own rows."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from aiflame.profile.folder.control_page import ControlPage
from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.all_tables import TABLE
from aiflame.profile.schema.frame_packing import address_word, mark_word, native_word, python_word
from aiflame.profile.spool.looks import OwnRows, looked_at, looks
from aiflame.profile.spool.process_spool import empty_frame, read
from aiflame.recorder.looks import waits as waits_module
from aiflame.recorder.looks.waits import FIRST_SHARE, MANY, MOST_PART, OFTEN_S, REFUSED, SELDOM_S, SHARE, Waits, pause
from aiflame.recorder.looks.writer import Writer


@pytest.fixture
def profile(tmp_path: Path) -> Folder:
    (tmp_path / "spool").mkdir()
    return Folder.open(tmp_path)


def written(profile: Folder, page: ControlPage) -> Writer:
    writer = Writer(profile.folder("spool"), page, 77, 1000)
    code = writer.add("codes", 12, writer.text(b"/a/file.py"), writer.text("näme".encode()), writer.text(b"\x80\x01"), 0x30B)
    module = writer.add("modules", writer.text(b"/lib/libc.so"), 0, 0x7000, 0x7100, 0x7200, 5, 6, 0)
    other = writer.add("modules", writer.text(b"/lib/other.so"), 0, 0x9000, 0x9100, 0x9200, 7, 8, 0)
    mark = writer.add("marks", writer.text(b"[incomplete stack]"))
    first = writer.stack([mark_word(mark), python_word(code, 6), native_word(module, 0x150), native_word(other, 0x160)])
    writer.add("waits", 77, first, 5000, 300, 202)
    second = writer.stack([mark_word(mark), python_word(code, 6), address_word(0x1234)])
    writer.add("waits", 78, second, 6000, 400, 230)
    return writer


def filled(table: str, columns: dict[str, list[object]]) -> pl.DataFrame:
    like = empty_frame(TABLE[table])
    rows = pl.DataFrame(columns, schema_overrides={name: like.schema[name] for name in columns})
    return pl.concat([like, rows], how="diagonal")


def as_rows(tables: dict[str, pl.DataFrame], name: str, *columns: str) -> list[tuple[object, ...]]:
    return tables[name].select(columns).rows()


def test_values_written_in_pieces_are_read_back(profile: Folder) -> None:
    with ControlPage.create(profile) as page:
        writer = written(profile, page)
        writer.write()
        writer.add("waits", 77, 3, 7000, 500, 202)
        writer.write()
    tables = read(profile.folder("spool", "looks", "77.1000"))
    assert as_rows(tables, "codes", "id", "first_line", "filename", "qualname") == [(1, 12, "/a/file.py", "näme")]
    assert tables["codes"]["linetable"].to_list() == [b"\x80\x01"]
    assert as_rows(tables, "stacks", "id", "parent") == [(1, 0), (2, 1), (3, 2), (4, 3), (5, 2)]
    assert as_rows(tables, "waits", "id", "thread", "stack", "time_ns", "off_us", "call") == [
        (1, 77, 4, 5000, 300, 202),
        (2, 78, 5, 6000, 400, 230),
        (3, 77, 3, 7000, 500, 202),
    ]


def test_nothing_is_written_beyond_the_limit(profile: Folder) -> None:
    with ControlPage.create(profile, max_bytes=1000) as page:
        writer = written(profile, page)
        writer.write()
        assert writer.full
    assert looked_at(profile.folder("spool")) == frozenset()


def test_looks_are_numbered_behind_the_processs_own_rows(profile: Folder) -> None:
    with ControlPage.create(profile) as page:
        written(profile, page).write()
    spool = profile.folder("spool")
    assert looked_at(spool) == {"77.1000"}
    own_rows = OwnRows()
    own_rows.last = Counter(codes=10, marks=20, modules=30, stacks=40, waits=50)
    thread: dict[str, list[object]] = {"tid": [77, 77, 77], "start_ns": [900, 4000, 5500], "id": [1, 2, 3]}
    own_rows.add("threads", filled("threads", thread))
    own: dict[str, list[object]] = {"id": [4], "path": ["/lib/libc.so"], "base": [0x7000]}
    own_rows.add("modules", filled("modules", own))
    own_rows.last["modules"] = 30
    damage = Counter[str]()
    tables = dict(looks(spool, "77.1000", own_rows, damage))
    assert not damage
    assert as_rows(tables, "codes", "id") == [(11,)]
    assert as_rows(tables, "modules", "id", "path") == [(32, "/lib/other.so")]
    words = [mark_word(21), python_word(11, 6), native_word(4, 0x150), native_word(32, 0x160), address_word(0x1234)]
    assert tables["stacks"]["frame"].to_list() == words
    assert as_rows(tables, "stacks", "id", "parent") == [(41, 0), (42, 41), (43, 42), (44, 43), (45, 42)]
    # Of the three threads with that number, the second lived then; thread 78 was not recorded.
    assert as_rows(tables, "waits", "id", "thread", "stack") == [(51, 2, 44)]
    assert all(tables[name].schema == empty_frame(TABLE[name]).schema for name in tables)


def test_damaged_looks_are_counted_and_left_out(profile: Folder) -> None:
    with ControlPage.create(profile) as page:
        written(profile, page).write()
    with profile.existing("spool", "looks", "77.1000", "stacks.table") as file:
        assert file is not None
        file.seek(4096 + 24 + 8)
        file.write(b"\xff\xff")
    damage = Counter[str]()
    tables = dict(looks(profile.folder("spool"), "77.1000", OwnRows(), damage))
    assert damage["damaged records of stacks left out"] == 1
    assert tables["stacks"].height == 4


def test_a_process_without_the_collector_is_left_alone(profile: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    with ControlPage.create(profile) as page:
        waits = Waits(profile.folder("spool"), page)
        monkeypatch.setattr(waits._lives, "unfinished", lambda spool: [(os.getpid(), 1000)] if not waits.looks else [])
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        for _ in range(5):
            waits.look()
        assert (waits.looks, waits.seen) == (5, 0)
        assert not looked_at(profile.folder("spool"))


def test_a_system_that_hides_memory_is_named(profile: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(waits_module, "Process", refused)
    with ControlPage.create(profile) as page:
        waits = Waits(profile.folder("spool"), page)
        monkeypatch.setattr(waits._lives, "unfinished", lambda spool: [(os.getpid(), 1000)])
        waits.look()
        waits.start()
        assert waits.finish() == [REFUSED]


def test_an_error_in_a_look_ends_nothing(profile: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits_module, "OFTEN_S", 0.001)
    with ControlPage.create(profile) as page:
        waits = Waits(profile.folder("spool"), page)
        calls = threading.Semaphore(0)

        def fails() -> None:
            calls.release()
            raise RuntimeError

        monkeypatch.setattr(waits, "look", fails)
        waits.start()
        assert all(calls.acquire(timeout=10) for _ in range(5))
        assert waits.finish() == []


def test_dear_looks_are_rare_but_never_leave_out_a_large_part_of_the_recording() -> None:
    assert pause(0, 0.0001, 0) == pause(MANY - 1, 0.0001, 1000) == OFTEN_S
    assert pause(MANY, 0.0001, 1000) == SELDOM_S
    assert pause(5, 0.01, 1000) == 0.01 / FIRST_SHARE
    assert pause(MANY, 0.01, 1000) == 0.01 / SHARE
    assert pause(MANY, 0.01, 20) == MOST_PART * 20
    assert pause(MANY, 0.01, 0) == SELDOM_S
    assert pause(5, 0.01, 0) == OFTEN_S
