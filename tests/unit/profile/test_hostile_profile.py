"""Profiles from a stranger, with something in the place of each of their parts that leads outside: nothing outside is read or changed."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_profiles import FOREIGN, Plant, everything_in, link, pipe, replaced, unsealed, untouched
from read_everything import of_python, read_everything

import aiflame
from aiflame.errors import AiflameError
from aiflame.profile import opening
from aiflame.profile.sealing import seal

STRANGER = 12345


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Profiles in which all is as it should be."""
    folder = tmp_path_factory.mktemp("whole")
    profiles = {name: unsealed(folder / f"{name}.aiflame") for name in ("unsealed", "sealed")}
    aiflame.open(profiles["sealed"])
    return profiles


@pytest.fixture(autouse=True)
def own_places(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    places = tmp_path_factory.mktemp("places")
    for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        (places / variable).mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(places / variable))


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """Fails a test that opens a pipe: it would wait for ever."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits for somebody"))
    signal.alarm(900)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def some_of(profile: Path) -> list[str]:
    """Every seventh part, folders and files of all rooms: each is refused at the same place, before any command goes its own way, and each
    is replaced in the last test."""
    return everything_in(profile)[::7]


def copies(whole: Path, folder: Path, plant: Plant, parts: list[str] | None = None) -> Iterator[tuple[str, Path, Path]]:
    """For each part of a profile: its name, a copy in which it was replaced, and the file that the replacement leads to."""
    for number, part in enumerate(parts or everything_in(whole)):
        place = folder / str(number)
        profile = place / "p.aiflame"
        shutil.copytree(whole, profile)
        canary = replaced(profile, part, plant, place / "outside")
        yield part, profile, canary
        shutil.rmtree(place)


@pytest.mark.parametrize("state", ["unsealed", "sealed"])
@pytest.mark.parametrize("plant", FOREIGN, ids=lambda plant: plant.__name__)
def test_every_command_refuses_a_profile_with_a_foreign_entry_and_leaves_it_as_it_is(tmp_path, whole, plant, state):
    for part, profile, canary in copies(whole[state], tmp_path / "copies", plant, some_of(whole[state])):
        before = everything_in(profile)
        with untouched(canary):
            for command, said in read_everything(profile, tmp_path, other=whole["sealed"]).items():
                assert FOREIGN[plant] in said, (part, command)
                assert said.count("\n") == 1, (part, command)
        assert everything_in(profile) == before, part


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to have a profile of somebody else")
@pytest.mark.parametrize("state", ["unsealed", "sealed"])
@pytest.mark.parametrize("plant", [link, pipe], ids=lambda plant: plant.__name__)
def test_in_a_profile_of_somebody_else_nothing_leads_outside_and_nothing_is_changed(tmp_path, whole, plant, state):
    """Such a profile is only read: its sound parts are shown."""
    readable = 0
    for part, profile, canary in copies(whole[state], tmp_path, plant, some_of(whole[state])):
        for path in [profile, *profile.rglob("*")]:
            os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
        before = {path: path.lstat().st_mtime_ns for path in profile.rglob("*")}
        with untouched(canary):
            try:
                assert "cpu-time" in of_python(str(profile)), part
                readable += 1
            except AiflameError as error:
                assert "\n" not in str(error)
        assert {path: path.lstat().st_mtime_ns for path in profile.rglob("*")} == before, part
    assert readable > 0


def test_a_link_that_comes_after_all_was_looked_through_leads_nowhere_either(tmp_path, whole, monkeypatch):
    """In the place of each part, and of each that opening makes."""
    for module in (seal, opening):
        monkeypatch.setattr(module, "refuse_foreign_entries", lambda profile: None)
    derived = sorted(set(everything_in(whole["sealed"])) - set(everything_in(whole["unsealed"])))
    assert {"tables", "tables/symbols", "cubins/0000000000000007.cubin.gz"} <= set(derived)
    for part, profile, canary in copies(whole["unsealed"], tmp_path / "there", link):
        with untouched(canary):
            _read(profile, part)
    for number, part in enumerate([*derived, "tables.partial", "seal.lock", "tables/lock", "tables/.new"]):
        profile, outside = tmp_path / str(number) / "p.aiflame", tmp_path / str(number) / "outside"
        shutil.copytree(whole["sealed"] if part.startswith("tables/") else whole["unsealed"], profile)
        canary = outside / "canary"
        there = profile / part
        if part.startswith("tables/"):  # derived once more
            _underive(profile)
        if there.is_dir() or part in ("tables", "tables.partial"):
            shutil.copytree(whole["sealed"] / (part if there.is_dir() else "tables"), canary)
            shutil.rmtree(there, ignore_errors=True)
        else:
            outside.mkdir()
            canary.write_text("the reader's own")
            there.unlink(missing_ok=True)
        there.symlink_to(canary)
        with untouched(canary):
            _read(profile, part)


def _underive(profile: Path) -> None:
    from aiflame.profile.folder.door import Folder
    from aiflame.profile.tables.index import Index

    tables = Folder.open(profile).folder("tables")
    index = Index.read(tables)
    assert index is not None
    Index({name: parts for name, parts in index.tables.items() if name not in ("symbols", "instructions")}).write(tables)


def _read(profile: Path, part: str) -> None:
    try:
        of_python(str(profile))
    except AiflameError as error:
        assert "\n" not in str(error), part


def test_reading_everything_reads_something(tmp_path, whole):
    """The commands that the other tests run do end where nothing is wrong."""
    said = read_everything(whole["sealed"], tmp_path, other=whole["sealed"])
    assert {command: text for command, text in said.items() if text.startswith("aiflame: ") and "cannot carry" not in text} == {}
    assert "scale<float,4>" in said["top"]
    assert (tmp_path / "report.html").stat().st_size > 100_000
    assert json.loads(said["top --json"])["rows"]
