"""Columns read from the pages of an SQLite file: as SQLite itself gives them, or not at all."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

import polars as pl
import pytest

from aiflame.exchange.readers.sqlite_pages import Kind, columns

EDGES = (0, 1, -1, 127, -128, 128, 32767, -32768, 32768, 1 << 23, -(1 << 23), 1 << 31, -(1 << 31), 1 << 47, -(1 << 47), (1 << 63) - 1, None)


def written(path: Path, *statements: str, rows: int = 0, width: int = 3, page: int = 4096) -> Path:
    random_one = random.Random(7)
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA page_size = {page}")
        for statement in statements:
            file.execute(statement)
        places = ",".join("?" * width)
        if rows:
            file.executemany(f"INSERT INTO t VALUES ({places})", ([random_one.choice(EDGES) for _ in range(width)] for _ in range(rows)))
        file.commit()
    return path


def read(path: Path, *names: str, table: str = "t", of: Mapping[str, Kind] | None = None) -> list[tuple[object, ...]] | None:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as file:
        frame = columns(str(path), file, table, of or dict.fromkeys(names, pl.Int64()))
    return None if frame is None else frame.rows()


def right(path: Path, *names: str, table: str = "t") -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as file:
        file.text_factory = lambda text: text.decode("utf-8", "replace")
        return file.execute(f"SELECT {','.join(names)} FROM {table} NOT INDEXED ORDER BY rowid").fetchall()


@pytest.mark.parametrize("page", [512, 4096, 65536])
@pytest.mark.parametrize("rows", [0, 1, 20_000])
def test_numbers_of_all_sizes_in_trees_of_all_depths(tmp_path: Path, rows: int, page: int) -> None:
    path = written(tmp_path / "a", "CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER)", rows=rows, page=page)
    assert read(path, "c", "a", "b") == right(path, "c", "a", "b")


def test_the_primary_key_is_the_number_of_the_row(tmp_path: Path) -> None:
    path = written(tmp_path / "a", "CREATE TABLE t (a INTEGER, id INTEGER PRIMARY KEY)")
    with closing(sqlite3.connect(path)) as file:
        file.executemany("INSERT INTO t VALUES (?, ?)", ((number * 3, number - 50) for number in range(0, 3000, 7)))
        file.commit()
    assert read(path, "id", "a") == right(path, "id", "a")


def test_columns_beside_texts_and_decimals(tmp_path: Path) -> None:
    path = written(tmp_path / "a", "CREATE TABLE t (name TEXT, a INTEGER, x REAL, b INTEGER)")
    with closing(sqlite3.connect(path)) as file:
        file.executemany(
            "INSERT INTO t VALUES (?, ?, ?, ?)", (("n" * (number % 50), number, number / 3, -number) for number in range(5000))
        )
        file.commit()
    assert read(path, "a", "b") == right(path, "a", "b")


@pytest.mark.parametrize("differs", [None, 0, 1, 1000, 2999])
def test_a_column_in_which_one_row_differs_or_none(tmp_path: Path, differs: int | None) -> None:
    path = written(tmp_path / "a", "CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER)")
    with closing(sqlite3.connect(path)) as file:
        file.executemany("INSERT INTO t VALUES (?, ?, NULL)", ((7 if row == differs else -300, row) for row in range(3000)))
        file.commit()
    assert read(path, "a", "b", "c") == right(path, "a", "b", "c")


OF_ALL: dict[str, Kind] = {"name": pl.String(), "x": pl.Float64(), "id": pl.Int64(), "note": pl.String()}


def of_all_kinds(path: Path, rows: int, longest: int, page: int) -> Path:
    random_one = random.Random(longest)
    texts = ["", "a", "Größe 💥", "nul\0 in it", *("x" * random_one.randrange(longest) for _ in range(40)), None]
    decimals = (0.0, -0.5, 1e300, 3.0, 7, -(1 << 40), None)
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"PRAGMA page_size = {page}")
        file.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, x REAL, note TEXT)")
        values = ((3 * row, random_one.choice(texts), random_one.choice(decimals), None) for row in range(rows))
        file.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", values)
        file.commit()
    return path


@pytest.mark.parametrize("page", [512, 4096])
@pytest.mark.parametrize("longest", [10, 500, 20_000])
def test_texts_and_decimals_also_where_a_record_goes_on_in_other_pages(tmp_path: Path, longest: int, page: int) -> None:
    path = of_all_kinds(tmp_path / "a", 1000, longest, page)
    assert read(path, of=OF_ALL) == right(path, *OF_ALL)


def test_records_of_every_length_around_that_of_a_page(tmp_path: Path) -> None:
    path = written(tmp_path / "a", "CREATE TABLE t (name TEXT, a INTEGER)", page=512)
    with closing(sqlite3.connect(path)) as file:
        file.executemany("INSERT INTO t VALUES (?, ?)", (("y" * size, size) for size in range(2200)))
        file.commit()
    assert read(path, of={"name": pl.String(), "a": pl.Int64()}) == right(path, "name", "a")


def test_texts_that_are_no_utf_8(tmp_path: Path) -> None:
    path = written(tmp_path / "a", "CREATE TABLE t (name TEXT)", "INSERT INTO t VALUES (CAST(x'61ff62c3' AS TEXT))")
    assert read(path, of={"name": pl.String()}) == right(path, "name") == [("a\ufffdb\ufffd",)]


@pytest.mark.parametrize(
    "statements",
    [
        ("PRAGMA encoding = 'UTF-16le'", "CREATE TABLE t (name TEXT)", "INSERT INTO t VALUES ('ab')"),
        ("CREATE TABLE t (name)", "INSERT INTO t VALUES (12)"),
        ("CREATE TABLE t (name)", "INSERT INTO t VALUES (1.5)"),
        ("CREATE TABLE t (name)", "INSERT INTO t VALUES (x'6162')"),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, name AS ('a'))", "INSERT INTO t VALUES (1)"),
    ],
    ids=["utf-16", "whole number", "decimal", "blob", "generated"],
)
def test_other_texts_are_left_to_sqlite(tmp_path: Path, statements: tuple[str, ...]) -> None:
    assert read(written(tmp_path / "a", *statements), of={"name": pl.String()}) is None


def test_damaged_texts_and_long_records_give_rows_or_nothing(tmp_path: Path) -> None:
    whole, random_one = of_all_kinds(tmp_path / "a", 300, 3000, 512).read_bytes(), random.Random(5)
    given_up = 0
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(random_one.choice((1, 5, 50))):
            data[random_one.randrange(100, len(data))] = random_one.randrange(256)
        damaged = tmp_path / "b"
        damaged.write_bytes(data)
        with suppress(sqlite3.Error):
            given_up += read(damaged, of=OF_ALL) is None
    assert given_up


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER) WITHOUT ROWID", "INSERT INTO t VALUES (1, 2)"),
        ("CREATE TABLE t (a INTEGER, b INTEGER)", "INSERT INTO t VALUES ('12 apples', 2)"),
        ("CREATE TABLE t (a INTEGER, b INTEGER)", "INSERT INTO t VALUES (1.5, 2)"),
        ("CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)", "ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 5"),
        ("CREATE TABLE t (g INTEGER AS (1 + 1) STORED, a INTEGER, b INTEGER)", "INSERT INTO t VALUES (1, 2)"),
        ("CREATE TABLE s (a INTEGER, b INTEGER)", "CREATE VIEW t AS SELECT * FROM s"),
    ],
    ids=["without rowid", "text", "decimal", "added column", "generated column", "view"],
)
def test_other_tables_are_left_to_sqlite(tmp_path: Path, statements: tuple[str, ...]) -> None:
    assert read(written(tmp_path / "a", *statements), "a", "b") is None


def test_damaged_files_give_numbers_or_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "a", "CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER)", rows=3000, page=512)
    whole, random_one = path.read_bytes(), random.Random(3)
    given_up = 0
    for round_ in range(300):
        data = bytearray(whole)
        for _ in range(random_one.choice((1, 5, 50))):
            data[random_one.randrange(100, len(data))] = random_one.randrange(256)
        damaged = tmp_path / f"b{round_}"
        damaged.write_bytes(data[: random_one.choice((len(data), random_one.randrange(512, len(data))))])
        try:
            values = read(damaged, "a", "c")
        except sqlite3.Error:
            continue
        given_up += values is None
        damaged.unlink()
    assert given_up


def test_a_tree_that_leads_in_a_circle_ends(tmp_path: Path) -> None:
    path = written(tmp_path / "a", "CREATE TABLE t (a INTEGER, b INTEGER)", rows=2000, width=2, page=512)
    with closing(sqlite3.connect(path)) as file:
        (root,) = file.execute("SELECT rootpage FROM sqlite_master").fetchone()
        before = right(path, "a", "b")
    data = bytearray(path.read_bytes())
    begin = (root - 1) * 512
    assert data[begin] == 5
    data[begin + 8 : begin + 12] = root.to_bytes(4, "big")
    path.write_bytes(data)
    assert len(before) == 2000
    with suppress(sqlite3.DatabaseError):  # SQLite may see it while it counts
        assert read(path, "a", "b") is None
