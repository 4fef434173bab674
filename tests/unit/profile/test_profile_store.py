"""An opened profile: tables, SQL, derived tables, and errors that a person can act on."""

from __future__ import annotations

import dataclasses
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from spool_files import ProcessFiles, busy_process, ended_profile

import aiflame
from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Clocks, Meta, Recorder
from aiflame.profile.opening import newest, open_profile
from aiflame.profile.schema.all_tables import TABLES
from aiflame.profile.tables.index import Index, write_part
from aiflame.profile.tables.store import Profile


@pytest.fixture
def path(tmp_path) -> Path:
    path = ended_profile(tmp_path / "a.aiflame", busy_process())
    open_profile(path)
    return path


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_table_of_the_schema_can_be_asked_for_and_has_the_same_columns_with_or_without_rows(tmp_path, path, table):
    full, empty = open_profile(path), open_profile(ended_profile(tmp_path / "empty.aiflame"))
    assert not empty.has(table.name)
    assert empty.table(table.name).is_empty()
    assert empty.scan(table.name).collect_schema() == full.scan(table.name).collect_schema()
    assert empty.table(table.name).columns == ["process", "id", *(column.name for column in table.columns)]


def test_an_unknown_table_is_named_beside_those_there_are(path):
    with pytest.raises(AiflameError, match="has no table 'sampels'; it has processes"):
        open_profile(path).table("sampels")  # codespell:ignore sampels


def test_sql_runs_over_all_tables(path):
    profile = open_profile(path)
    assert profile.sql("SELECT COUNT(*) AS n FROM cpu_samples JOIN stacks ON cpu_samples.stack = stacks.id").item() == 50
    assert profile.sql("SELECT * FROM copies").is_empty()
    with pytest.raises(AiflameError, match=r"this query cannot be answered: .*; tables: processes"):
        profile.sql("SELECT nothing FROM nowhere")
    with pytest.raises(AiflameError, match="this query cannot be answered"):
        profile.sql("SELEKT")  # codespell:ignore selekt


def of_one_recorder(path: Path) -> Profile:
    profile = open_profile(path)
    assert isinstance(profile, Profile)
    return profile


def test_a_derived_table_is_kept_and_replaced(path):
    profile, other = of_one_recorder(path), of_one_recorder(path)
    profile.write_table("symbols", pl.DataFrame({"name": ["a"]}))
    (path / "tables/symbols/left-by-a-kill.parquet").touch()
    assert open_profile(path).table("symbols")["name"].to_list() == ["a"]
    other.write_table("symbols", pl.DataFrame({"name": ["b"]}))
    assert profile.table("symbols")["name"].to_list() == ["b"]
    assert len(list((path / "tables/symbols").iterdir())) == 1
    assert len(open_profile(path).table("cpu_samples")) == 50


def test_small_tables_are_read_once_and_large_ones_each_time(path, monkeypatch):
    profile, scan, read = of_one_recorder(path), pl.scan_parquet, []

    def counted(*arguments: Any, **options: Any) -> pl.LazyFrame:
        read.append(arguments)
        return scan(*arguments, **options)

    monkeypatch.setattr(pl, "scan_parquet", counted)
    profile.write_table("small", pl.DataFrame({"row": range(1000)}))
    profile.write_table("large", pl.DataFrame({"row": range(2000)}))
    for name, rows, times in (("small", 1000, 1), ("large", 2000, 3)):
        read.clear()
        assert [profile.table(name).height, profile.scan(name).collect().height, profile.table(name).height] == [rows] * 3
        assert len(read) == times


@pytest.mark.parametrize("name", ["cpu_samples", "../x", "", "Upper", "a/b"])
def test_a_derived_table_cannot_take_any_name(path, name):
    with pytest.raises(AiflameError, match="cannot be the name of a derived table"):
        of_one_recorder(path).write_table(name, pl.DataFrame({"a": [1]}))


def test_each_note_is_shown_once(tmp_path):
    files = busy_process()
    files.add("notes", text="something was not possible")
    path = ended_profile(tmp_path / "a.aiflame", files, meta=Meta(degraded=("from the recorder",)))
    assert open_profile(path).notes() == ["from the recorder", "something was not possible"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "is empty: not a profile"),
        (lambda path: path.write_text("hello"), "is not a profile"),
        (lambda path: (path / "x").mkdir(parents=True), "is not a profile"),
        (lambda path: path.symlink_to(path), "cannot read|does not exist"),
    ],
    ids=["nothing", "empty folder", "file", "other folder", "circular link"],
)
def test_a_folder_that_is_no_profile_is_an_error(tmp_path, make, message):
    path = tmp_path / "a.aiflame"
    make(path)
    with pytest.raises(AiflameError, match=message):
        open_profile(path)


@pytest.mark.parametrize("name", ["a\0b", "x" * 300, "x/" * 3000])
def test_a_name_that_no_file_can_have_is_an_error_too(name):
    with pytest.raises(AiflameError):
        open_profile(name)


def test_opening_a_recording_that_is_just_beginning_does_not_seal_it(tmp_path):
    path = tmp_path / "a.aiflame"
    Meta(recorder=Recorder.this()).put(Folder.new(path))  # no folder for spools yet, and no control page
    assert "is still being recorded" in open_profile(path).unfinished()[0]
    assert [file.name for file in path.iterdir()] == ["meta.json"]


def test_a_newer_profile_is_refused_with_advice(path):
    Meta(format=2).write(Folder.open(path))
    with pytest.raises(AiflameError, match=r"written by a newer aiflame \(format 2; this one reads 1\): upgrade"):
        open_profile(path)


@pytest.mark.parametrize("content", [None, b"", b"{", b"[1]", b'{"command": "not a list"}', b"\xff\xfe", b"[" * 100_000])
def test_damaged_meta_leaves_the_tables_readable(path, content):
    (path / "meta.json").unlink()
    if content is not None:
        (path / "meta.json").write_bytes(content)
    profile = open_profile(path)
    assert profile.notes() == ["meta.json is missing or damaged: command, host and options are unknown", "something was not possible"]
    assert len(profile.table("cpu_samples")) == 50


def damaged_file(path: Path) -> Path:
    return next((path / "tables/cpu_samples").iterdir())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file.unlink(), "is missing"),
        (lambda file: os.truncate(file, 100), "is damaged"),
        (lambda file: file.write_bytes(file.read_bytes()[:-9] + b"x" + file.read_bytes()[-8:]), "is damaged"),
        (lambda file: shutil.copy(file.parents[1] / "stacks/00000.parquet", file), "is damaged"),
    ],
    ids=["deleted", "cut", "one byte", "another table's file"],
)
def test_a_damaged_parquet_file_is_an_error_for_its_table_alone(path, damage, message):
    damage(damaged_file(path))
    profile = open_profile(path)
    with pytest.raises(AiflameError, match=message):
        profile.table("cpu_samples")
    assert len(profile.table("stacks")) == 5


def test_a_damaged_index_is_an_error(path):
    index = path / "tables/index.json"
    index.write_text(index.read_text().replace('"rows": 50', '"rows": 51'))
    with pytest.raises(AiflameError, match="index is missing or wrong"):
        open_profile(path)


READ_BY_ANOTHER = """
import os, sys
import polars
import aiflame
from aiflame.errors import AiflameError
from aiflame.profile.opening import open_profile
os.setuid(65534)
sealed, raw = sys.argv[1:]
for path in (sealed, raw):
    try:
        profile = open_profile(path)
        new = "not derived" if not profile.has("symbols") else "derived"
        profile.write_table("symbols", polars.DataFrame({"a": [1]}))
        profile.write_meta(profile.meta.with_notes("a note"))
        print(len(profile.table("cpu_samples")), new, len(profile.table("symbols")), *profile.notes(), sep=", ")
    except AiflameError as error:
        print(error)
"""


def read_by_another(sealed: Path, raw: Path, cache: Path) -> list[str]:
    if closed := [folder for folder in Path(aiflame.__file__).parents if not folder.stat().st_mode & 0o001]:
        pytest.skip(f"aiflame lies below {closed[0]}, which other users may not enter")
    for folder in sealed.parents:  # another run of pytest closes the folder of all runs when it begins
        if folder.stat().st_mode & 0o555 != 0o555:
            folder.chmod(folder.stat().st_mode | 0o555)
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-c", READ_BY_ANOTHER, str(sealed), str(raw)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def content(path: Path) -> dict[str, tuple[int, bytes]]:
    return {str(file): (file.stat().st_mtime_ns, file.read_bytes() if file.is_file() else b"") for file in [path, *path.rglob("*")]}


@pytest.fixture
def of_root(tmp_path: Path) -> tuple[Path, Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become a user who may not write")
    sealed, raw = (ended_profile(tmp_path / f"{name}.aiflame", busy_process()) for name in ("sealed", "raw"))
    open_profile(sealed)
    readable(sealed, raw, tmp_path)
    return sealed, raw


def readable(*folders: Path) -> None:
    for folder in folders:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_tables_of_another_users_profile_are_made_in_the_readers_own_cache(tmp_path, of_root):
    cache = tmp_path / "cache"
    cache.mkdir(0o700)
    os.chown(cache, 65534, 65534)
    sealed, raw = of_root
    first = read_by_another(sealed, raw, cache)
    before = [content(path) for path in of_root]
    assert first == ["50, not derived, 1, a note, something was not possible"] * 2
    assert read_by_another(sealed, raw, cache) == ["50, derived, 1, a note, something was not possible"] * 2
    assert [content(path) for path in of_root] == before
    cached = [cache / "aiflame", *(cache / "aiflame").rglob("*")]
    assert len(cached) > 10
    for path in cached:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
        assert path.stat().st_uid == 65534


@pytest.mark.parametrize("cache", ["another's", "open to all", "a link", "open to the group inside"])
def test_without_a_cache_of_ones_own_derived_tables_stay_in_memory_and_nothing_is_sealed(tmp_path, of_root, cache):
    folder = tmp_path / "cache"
    folder.mkdir(0o1777)
    if cache != "another's":
        os.chown(folder, 65534, 65534)
        folder.chmod(0o1777 if cache == "open to all" else 0o700)
    if cache == "a link":
        (tmp_path / "elsewhere").mkdir(0o777)
        os.chown(tmp_path / "elsewhere", 65534, 65534)
        (folder / "aiflame").symlink_to(tmp_path / "elsewhere")
    if cache == "open to the group inside":
        (folder / "aiflame").mkdir()
        (folder / "aiflame").chmod(0o770)
        os.chown(folder / "aiflame", 65534, 65534)
    sealed, raw = of_root
    for _ in range(2):
        printed = read_by_another(sealed, raw, folder)
        assert printed[0] == "50, not derived, 1, a note, something was not possible"
        assert printed[1].startswith(f"{raw} is not sealed, and not yours to write to: set XDG_CACHE_HOME to a folder of your own")
    assert [path.name for path in tmp_path.rglob("*") if path.name == "profiles"] == []


def test_tables_derived_from_another_users_profile_are_not_reused_for_a_later_one(tmp_path, of_root):
    cache = tmp_path / "cache"
    cache.mkdir(0o700)
    os.chown(cache, 65534, 65534)
    sealed, raw = of_root
    read_by_another(sealed, raw, cache)
    (sealed / "meta.json").write_text('{"version": "2"}')
    shutil.rmtree(raw)
    ended_profile(raw, ProcessFiles())
    readable(raw)
    printed = read_by_another(sealed, raw, cache)
    assert printed[0].startswith("50, not derived")
    assert printed[1].startswith("0, not derived")


def test_the_newest_profile_is_the_one_recorded_last(tmp_path):
    for name, started in (("b", 5_000), ("a", 9_000), ("c", 7_000)):
        ended_profile(tmp_path / f"{name}.aiflame", ProcessFiles(), meta=Meta(started=Clocks(realtime_ns=started)))
    (tmp_path / "no-profile.aiflame").mkdir()
    (tmp_path / "file.aiflame").touch()
    assert newest(tmp_path) == tmp_path / "a.aiflame"


def test_a_folder_without_profiles_says_how_to_make_one(tmp_path):
    with pytest.raises(AiflameError, match=r"no profile \(\*\.aiflame\) in .*: record one with `aiflame record -- COMMAND`"):
        newest(tmp_path)


@pytest.mark.parametrize("stated", [50, 80_000_000])
def test_a_small_file_of_very_many_equal_rows_is_refused_before_it_is_read(path, stated):
    tables = Folder.open(path).folder("tables")
    bomb = write_part(tables, "cpu_samples", "ff", pl.DataFrame({"process": pl.repeat(0, 80_000_000, dtype=pl.UInt8, eager=True)}))
    assert bomb.bytes < 1 << 20
    index = Index.read(tables)
    assert index is not None
    Index({**index.tables, "cpu_samples": (dataclasses.replace(bomb, rows=stated),)}).write(tables)
    with pytest.raises(AiflameError, match=r"says that it has 80,000,000 rows in [0-9,]+ bytes: aiflame writes no such table"):
        open_profile(path).table("cpu_samples")
