"""A store is its owner's alone, and one agent writes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aiflame.errors import AiflameError
from aiflame.store.layout import begin_of, hour_of, is_store, make_store, take


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    os.umask(os.umask(0))
    store = make_store(tmp_path / "a" / "store")
    assert {path.stat().st_mode & 0o077 for path in store.path.rglob("*")} == {0}
    assert store.path.stat().st_mode & 0o777 == 0o700
    assert is_store(store)
    make_store(store.path)
    store.path.chmod(0o750)
    with pytest.raises(AiflameError, match="others may read"):
        make_store(store.path)


def test_another_folder_is_not_taken(tmp_path: Path) -> None:
    tmp_path.joinpath("letters.txt").write_text("mine")
    with pytest.raises(AiflameError, match="has other files and is no store"):
        make_store(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]
    with pytest.raises(AiflameError, match="cannot write a store"):
        make_store(tmp_path / "letters.txt" / "store")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_store_of_another_user_is_refused(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store")
    os.chown(store.path, 12345, 12345)
    with pytest.raises(AiflameError, match="belongs to another user"):
        make_store(store.path)


def test_a_second_agent_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store")
    lock = take(store)
    with pytest.raises(AiflameError, match="another agent writes"):
        take(store)
    os.close(lock)
    os.close(take(store))


def test_a_store_of_a_later_version_is_refused(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store")
    store.write("store.json", b'{"format": 2}')
    with pytest.raises(AiflameError, match="format 2"):
        make_store(store.path)


@pytest.mark.parametrize("hour", ["1970-01-01T00Z", "2026-11-27T14Z", "2028-02-29T23Z"])
def test_an_hour_has_the_name_of_its_first_second(hour: str) -> None:
    begin = begin_of(hour)
    assert begin % 3600 == 0
    assert hour_of(begin * 10**9) == hour == hour_of((begin + 3600) * 10**9 - 1)
