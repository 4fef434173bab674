"""Parts of an hour: merged, added twice or half removed, each window counts once and nothing is lost."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_rows import BEGIN_NS, new_store, window

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.store import tables
from aiflame.store.layout import HOURS, hour_of, hours, make_store, parts, remove_hour, remove_partial

HOUR = hour_of(BEGIN_NS)
NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple)
WINDOWS = st.lists(st.dictionaries(NAMES, st.integers(1, 10**9), min_size=1, max_size=4), min_size=1, max_size=6)


def totals(whole: tables.Tables) -> dict[int, int]:
    return {number: int(rows["value"].sum()) for (number,), rows in whole["values"].group_by("window")}


def whole(store: Folder) -> tables.Tables:
    return tables.together(tables.read(store, HOUR, part) for part in parts(store, HOUR))


@given(WINDOWS, st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=8))
@settings(max_examples=25, deadline=None)
def test_windows_that_are_added_again_and_merged_at_any_moment_count_once(
    tmp_path_factory: pytest.TempPathFactory, given_windows: list[dict[tuple[str, ...], int]], steps: list[tuple[int, bool]]
) -> None:
    store = make_store(tmp_path_factory.mktemp("s") / "store")
    expected = {}
    for number, stacks in enumerate(given_windows, 1):
        tables.write(store, HOUR, window(number, stacks))
        expected[number] = sum(stacks.values())
    for again, merged in steps:
        number = again % len(given_windows) + 1
        tables.write(store, HOUR, window(number, given_windows[number - 1]))
        if merged:
            tables.merge(store, HOUR)
    rows = whole(store)
    assert totals(rows) == expected
    for name, key in (("windows", "window"), ("stacks", "stack"), ("frames", "frame")):
        assert rows[name][key].is_unique().all()
    assert set(rows["values"]["stack"]) <= set(rows["stacks"]["stack"])
    assert set(rows["stacks"]["frame"]) == set(rows["frames"]["frame"])


def test_a_part_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store(tmp_path)
    tables.write(store, HOUR, window(1, {("a",): 5}))
    original = Folder.create

    def full(self: Folder, name: str, *, durable: bool = True):  # type: ignore[no-untyped-def]
        if name == "stacks.parquet":
            raise OSError(errno.ENOSPC, "no space")
        return original(self, name, durable=durable)

    monkeypatch.setattr(Folder, "create", full)
    with pytest.raises(OSError, match="no space"):
        tables.write(store, HOUR, window(2, {("a",): 5}))
    assert totals(whole(store)) == {1: 5}
    assert len(store.folder(HOURS, HOUR).names()) == 1


def test_what_a_killed_process_left_half_done_is_removed(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    tables.write(store, HOUR, window(1, {("a",): 5}))
    store.folder(HOURS, HOUR).new_folder("0123.partial").new_folder("x")
    store.folder(HOURS).new_folder("2025-11-27T13Z.0123.partial")
    assert totals(whole(store)) == {1: 5}
    assert hours(store) == [HOUR]
    remove_partial(store)
    assert not list(store.path.rglob("*.partial"))
    assert totals(whole(store)) == {1: 5}


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    tables.write(store, HOUR, window(1, {("a",): 5}))
    (file,) = store.path.glob("hours/*/*/values.parquet")
    file.write_bytes(b"PAR1 and no more")
    with pytest.raises(AiflameError, match=r"values\.parquet is damaged"):
        whole(store)


def test_an_hour_that_is_removed_while_it_is_read_has_nothing(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    tables.write(store, HOUR, window(1, {("a",): 5}))
    (part,) = parts(store, HOUR)
    remove_hour(store, HOUR)
    assert len(tables.read(store, HOUR, part)["windows"]) == 0
    assert hours(store) == []
