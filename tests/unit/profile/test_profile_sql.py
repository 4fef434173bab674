"""SQL reaches the tables of a profile, and no file."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from spool_files import busy_process, ended_profile

from aiflame.errors import AiflameError
from aiflame.profile.opening import open_profile
from aiflame.profile.tables import sql
from aiflame.profile.tables.store import Profile

READERS = ("read_csv", "read_parquet", "read_json", "read_ndjson", "read_ipc", "read_avro", "scan_csv", "scan_parquet", "read_anything")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sql")
    open_profile(ended_profile(path / "p", busy_process()))
    frame = pl.DataFrame({"id": [1], "secret": ["hunter2"]})
    frame.write_csv(path / "file.csv")
    frame.write_parquet(path / "file.parquet")
    frame.write_ipc(path / "file.ipc")
    frame.write_ndjson(path / "file.ndjson")
    frame.write_json(path / "file.json")
    return path


@pytest.fixture
def profile(folder: Path) -> Profile:
    opened = open_profile(folder / "p")
    assert isinstance(opened, Profile)
    return opened


FORMS = {
    "plain": "SELECT * FROM {f}('{p}')",
    "upper": "SELECT * FROM {F}('{p}')",
    "mixed": "SELECT * FROM {m}('{p}')",
    "quoted": "SELECT * FROM \"{f}\"('{p}')",
    "backtick": "SELECT * FROM `{f}`('{p}')",
    "spaced": "SELECT * FROM {f} ('{p}')",
    "comment": "SELECT * FROM {f}/* */('{p}')",
    "line comment": "SELECT 1 -- it's\n FROM {f}('{p}') -- '",
    "join": "SELECT * FROM threads t JOIN {f}('{p}') r ON t.id = r.id",
    "comma": "SELECT * FROM threads, {f}('{p}')",
    "cte": "WITH q AS (SELECT * FROM {f}('{p}')) SELECT * FROM q",
    "scalar": "SELECT (SELECT secret FROM {f}('{p}')) FROM threads",
    "in": "SELECT * FROM threads WHERE name IN (SELECT secret FROM {f}('{p}'))",
    "exists": "SELECT * FROM threads WHERE EXISTS (SELECT 1 FROM {f}('{p}'))",
    "union": "SELECT name FROM threads UNION ALL SELECT secret FROM {f}('{p}')",
    "explain": "EXPLAIN SELECT * FROM {f}('{p}')",
    "create": "CREATE TABLE x AS SELECT * FROM {f}('{p}')",
    "behind a text": "SELECT 'a' AS x, 'it''s' AS y FROM {f}('{p}')",
    "between quotes": "SELECT \"'\" FROM {f}('{p}') WHERE \"'\" = 1",
    "escape": "SELECT '\\' FROM {f}('{p}') WHERE 'x' = 'y'",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reader", READERS)
def test_no_function_that_reads_a_file_is_answered(profile: Profile, folder: Path, reader: str, form: str) -> None:
    path = folder / f"file.{reader.partition('_')[2]}"
    query = FORMS[form].format(f=reader, F=reader.upper(), m=reader.title(), p=path)
    with pytest.raises(AiflameError, match="cannot be answered") as refused:
        profile.sql(query)
    assert "hunter2" not in str(refused.value)


def test_the_plan_shows_the_effects_that_the_words_do_not(profile: Profile, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test acts as if Polars had a name for reading that we do not know."""
    monkeypatch.setattr(sql, "_refuse_what_reads_files", lambda query: None)
    for form in ("plain", "cte", "scalar", "in", "union", "join"):
        with pytest.raises(AiflameError, match="reads no other file"):
            profile.sql(FORMS[form].format(f="read_csv", p=folder / "file.csv"))


@pytest.mark.parametrize(
    "query",
    [
        "CREATE TABLE x AS SELECT * FROM threads",
        "drop table threads",
        " /* hm */ TRUNCATE TABLE threads",
        "DELETE FROM threads",
        "COPY threads TO '/tmp/x.csv'",
        "INSERT INTO threads VALUES (1)",
        "UPDATE threads SET name = 'x'",
        "SELECT * FROM threads; SELECT * FROM threads",
        "SELECT * FROM '/etc/passwd'",
        'SELECT * FROM "/etc/passwd"',
    ],
)
def test_whatever_is_no_question_is_refused(profile: Profile, query: str) -> None:
    with pytest.raises(AiflameError, match="cannot be answered"):
        profile.sql(query)
    assert len(profile.table("threads")) == 1


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT COUNT(*) AS n FROM cpu_samples WHERE 'read_csv(' <> 'x'", [(50,)]),
        ("SELECT name FROM threads WHERE name NOT LIKE '%read_parquet%'", [("main",)]),
        ("WITH q AS (SELECT name FROM threads) SELECT * FROM q -- a comment", [("main",)]),
        ("SELECT t.name FROM threads t WHERE t.id IN (SELECT thread FROM cpu_samples)", [("main",)]),
    ],
)
def test_questions_about_the_tables_are_answered(profile: Profile, query: str, rows: list[tuple[object, ...]]) -> None:
    assert profile.sql(query).rows() == rows
