"""SQLite files from strangers: only stored rows of ordinary tables are read, and nothing in the file is run."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import pytest

from aiflame.errors import AiflameError
from aiflame.exchange.readers.source import Source
from aiflame.exchange.readers.sqlite_file import INT, REAL, TEXT, SqliteFile


def written(path: Path, script: str, rows: int = 0) -> Source:
    connection = sqlite3.connect(path)
    connection.executescript(script)
    if rows:
        connection.executemany("INSERT INTO many VALUES (?, ?)", ((number, number * 0.5) for number in range(rows)))
    connection.commit()
    connection.close()
    return Source.open(path)


def test_values_of_every_type_become_what_was_asked_for(tmp_path: Path) -> None:
    source = written(
        tmp_path / "a",
        "CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 'x'), (NULL, NULL), ('7', 2.5), (x'ff41', x'ff41'),"
        " (9223372036854775807, 3), (2.9, '');",
    )
    with SqliteFile.open(source) as file:
        assert file.read("t", {"a": INT})["a"].to_list() == [1, None, 7, 0, 2**63 - 1, 2]
        assert file.read("t", {"a": INT, "b": TEXT})["b"].to_list() == ["x", None, "2.5", "\ufffdA", "3", ""]
        assert file.read("t", {"b": REAL})["b"].to_list() == [0.0, None, 2.5, 0.0, 3.0, 0.0]
        assert file.read("t", {"a": INT, "absent": INT})["absent"].to_list() == [None] * 6
        assert file.read("absent", {"a": INT}).is_empty()


@pytest.mark.parametrize("rows", [0, 1, 99_999, 100_000, 100_001, 250_000])
@pytest.mark.parametrize("more", ["", ", made AS (a)"], ids=["from its pages", "by SQLite"])
def test_tables_of_many_rows_are_read_whole(rows: int, more: str, tmp_path: Path) -> None:
    source = written(tmp_path / "a", f"CREATE TABLE many (a INTEGER, b REAL{more});", rows)
    with SqliteFile.open(source) as file:
        frame = file.read_many({"many": {"a": INT, "b": REAL}})["many"]
    assert frame["a"].sort().to_list() == list(range(rows))
    assert frame["b"].sum() == sum(range(rows)) * 0.5


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE t (a PRIMARY KEY, b) WITHOUT ROWID;",
        "CREATE TABLE t (a, b, rowid TEXT DEFAULT 'x', oid TEXT DEFAULT 'x', _rowid_ TEXT DEFAULT 'x');",
        'CREATE TABLE t (a, b, "odd ""name; --" INT);',
    ],
)
def test_tables_of_any_kind_are_read(table: str, tmp_path: Path) -> None:
    with SqliteFile.open(written(tmp_path / "a", f"{table} INSERT INTO t (a, b) VALUES (1, 2), (3, 4);")) as file:
        assert sorted(file.read("t", {"a": INT, "b": INT}).rows()) == [(1, 2), (3, 4)]


def test_views_virtual_tables_and_generated_columns_are_not_there(tmp_path: Path) -> None:
    script = """
    CREATE TABLE t (a INTEGER, made AS (hex(zeroblob(100000000))));
    INSERT INTO t (a) VALUES (1);
    CREATE VIEW v AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n AS a FROM r;
    CREATE TRIGGER g AFTER INSERT ON t BEGIN DELETE FROM t; END;
    CREATE INDEX i ON t (a) WHERE a IS NOT NULL;
    CREATE VIRTUAL TABLE w USING fts5(a);
    """
    with SqliteFile.open(written(tmp_path / "a", script)) as file:
        assert "v" not in file.tables
        assert "w" not in file.tables
        assert file.tables["t"] == ("a",)
        assert file.read("t", {"a": INT, "made": TEXT}).rows() == [(1, None)]
        assert file.read("v", {"a": INT}).is_empty()


def test_a_log_beside_the_file_is_not_read_nor_is_anything_written(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (a)")
    connection.execute("INSERT INTO t VALUES (1)")
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("INSERT INTO t VALUES (2)")
    connection.commit()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert len(before) > 1
    with SqliteFile.open(Source.open(tmp_path / "a")) as file:
        assert file.read("t", {"a": INT}).rows() == [(1,)]
        with pytest.raises(sqlite3.OperationalError):
            file._connection.execute("DELETE FROM t")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_packed_file_is_unpacked_first(tmp_path: Path) -> None:
    source = written(tmp_path / "a", "CREATE TABLE t (a); INSERT INTO t VALUES (5);")
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(source.path.read_bytes()))
    with SqliteFile.open(Source.open(packed)) as file:
        assert file.read("t", {"a": INT}).rows() == [(5,)]


def test_a_query_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = written(tmp_path / "a", "CREATE TABLE many (a INTEGER, b REAL, made AS (a));", 300_000)
    monkeypatch.setattr("aiflame.exchange.readers.sqlite_file._LONGEST_S", 0.0)
    with pytest.raises(AiflameError, match="takes longer than 0 s"), SqliteFile.open(source) as file:
        file.read("many", {"b": REAL})


def test_names_with_signs_of_addresses_are_paths(tmp_path: Path) -> None:
    with SqliteFile.open(written(tmp_path / "a?mode=rw&x#%20", "CREATE TABLE t (a);")) as file:
        assert "t" in file.tables
