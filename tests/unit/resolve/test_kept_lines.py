"""The table of lines that aiflame keeps of a library is used again while the library stays the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from binaries import Binary, build
from symbolic.debuginfo import Archive

from aiflame.resolve.files.elf_file import ElfFile
from aiflame.resolve.native import debug_lines, kept_lines
from aiflame.resolve.native.debug_lines import DebugLines


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Binary:
    return build(tmp_path_factory.mktemp("program"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache: nothing is too small to be kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kept_lines, "LEAST", 1)
    return tmp_path / "cache/aiflame/lines"


@pytest.fixture
def libraries_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often debug information was read from a library."""
    opened: list[str] = []
    archive = Archive

    class Counted:
        @staticmethod
        def open(path: str) -> object:
            opened.append(path)
            return archive.open(path)

    monkeypatch.setattr(debug_lines, "Archive", Counted)
    return opened


def chain(program: Binary, path: Path | None = None, *, may_keep: bool = True) -> list[tuple[str, int]]:
    elf = ElfFile.open(path or program.path)
    assert elf is not None
    places = DebugLines(elf, may_keep=may_keep).lookup(program.marks["leaf"] - 1)
    return [(place.name, place.line) for place in places]


def expected(program: Binary) -> list[tuple[str, int]]:
    names = {"outer": "_ZN3app5outerIiEET_S1_", "middle": "middle", "leaf": "leaf"}
    return [(name, program.line(f"in {function}")) for function, name in names.items()]


def test_a_library_is_read_once(program: Binary, cache: Path, libraries_read: list[str]) -> None:
    assert [chain(program) for _ in range(3)] == [expected(program)] * 3
    assert len(libraries_read) == 1
    (file,) = cache.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_library_that_was_written_again_is_read_again(program: Binary, tmp_path: Path, libraries_read: list[str]) -> None:
    path = tmp_path / "library"
    path.write_bytes(program.path.read_bytes())
    assert chain(program, path) == chain(program, path) == expected(program)
    other = build(tmp_path / "other", "-DOTHER", "-O1")
    path.write_bytes(other.path.read_bytes())
    assert chain(other, path) == chain(other, other.path)
    assert len(libraries_read) == 3


def test_what_is_damaged_is_made_again(program: Binary, cache: Path, libraries_read: list[str]) -> None:
    chain(program)
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[:100], bytes(len(whole))):
        file.write_bytes(damaged)
        assert chain(program) == expected(program)
        assert file.read_bytes() == whole
    assert len(libraries_read) == 4


def test_what_nobody_used_for_long_is_removed_and_so_is_what_does_not_fit(
    program: Binary, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain(program)
    (first,) = cache.iterdir()
    os.utime(first, (1e9, 1e9))
    chain(program)  # used again: it is no longer old
    others = []
    for number in range(2):
        others.append(tmp_path / f"library{number}")
        others[-1].write_bytes(program.path.read_bytes())
    chain(program, others[0])
    assert len(list(cache.iterdir())) == 2
    os.utime(first, (1e9, 1e9))
    monkeypatch.setattr(kept_lines, "MOST", first.stat().st_size)
    chain(program, others[1])
    (last,) = cache.iterdir()
    assert last != first


def test_nothing_is_kept_of_small_files_of_a_profiles_files_and_where_others_may_write(
    program: Binary, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chain(program, may_keep=False) == expected(program)
    with program.path.open("rb") as file:
        of_profile = ElfFile.of(file)
    assert of_profile is not None
    assert DebugLines(of_profile, may_keep=True).lookup(program.marks["leaf"] - 1)
    monkeypatch.setattr(kept_lines, "LEAST", 1 << 30)
    assert chain(program) == expected(program)
    assert not cache.exists()
    monkeypatch.setattr(kept_lines, "LEAST", 1)
    cache.parent.mkdir(parents=True)
    cache.parent.chmod(0o777)
    assert chain(program) == expected(program)
    assert not cache.exists()
