"""Whole numbers read from the pages of an SQLite file: as SQLite itself gives them, or not at all."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from aiflame.exchange.readers.sqlite_pages import NONE, is_constant, numbers

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


def read(path: Path, *columns: str, table: str = "t") -> list[tuple[int, ...]] | None:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as file:
        values = numbers(str(path), file, table, columns)
    return None if values is None else list(zip(*(values[name].tolist() for name in columns), strict=True))


def right(path: Path, *columns: str, table: str = "t") -> list[tuple[int, ...]]:
    fields = ",".join(f"ifnull({name}, {NONE})" for name in columns)
    with closing(sqlite3.connect(path)) as file:
        return file.execute(f"SELECT {fields} FROM {table} NOT INDEXED ORDER BY rowid").fetchall()


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
def test_a_column_with_one_number_takes_no_memory_until_a_row_differs(tmp_path: Path, differs: int | None) -> None:
    path = written(tmp_path / "a", "CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER)")
    with closing(sqlite3.connect(path)) as file:
        file.executemany("INSERT INTO t VALUES (?, ?, NULL)", ((7 if row == differs else -300, row) for row in range(3000)))
        file.commit()
    assert read(path, "a", "b", "c") == right(path, "a", "b", "c")
    with closing(sqlite3.connect(path)) as file:
        values = numbers(str(path), file, "t", "abc")
    assert values is not None and [is_constant(values[name]) for name in "abc"] == [differs is None, False, True]


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER) WITHOUT ROWID", "INSERT INTO t VALUES (1, 2)"),
        ("CREATE TABLE t (a INTEGER, b INTEGER)", "INSERT INTO t VALUES ('12 apples', 2)"),
        ("CREATE TABLE t (a INTEGER, b INTEGER)", "INSERT INTO t VALUES (1.5, 2)"),
        ("CREATE TABLE t (a INTEGER, b INTEGER, c TEXT)", f"INSERT INTO t VALUES (1, 2, '{'long' * 5000}')"),
        ("CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)", "ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 5"),
        ("CREATE TABLE t (g INTEGER AS (1 + 1) STORED, a INTEGER, b INTEGER)", "INSERT INTO t VALUES (1, 2)"),
        ("CREATE TABLE s (a INTEGER, b INTEGER)", "CREATE VIEW t AS SELECT * FROM s"),
    ],
    ids=["without rowid", "text", "decimal", "long record", "added column", "generated column", "view"],
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
