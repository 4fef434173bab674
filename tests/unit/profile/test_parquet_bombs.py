"""Small Parquet files that would take gigabytes are refused before they are unpacked."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from little_memory import said

from aiflame.errors import AiflameError
from aiflame.profile.folder.door import Folder
from aiflame.profile.folder.meta import Meta
from aiflame.profile.opening import open_profile
from aiflame.profile.tables.index import Index, write_part
from aiflame.profile.tables.parquet_pages import NotOurs, sizes
from aiflame.profile.tables.thrift import NotThrift, Reader

READ = """
import sys
from aiflame.errors import AiflameError
from aiflame.profile.opening import open_profile
profile = open_profile(sys.argv[1])
profile.table("processes")
limit()
try:
    print(len(profile.table("wild")))
    print(sum(map(len, profile.table("wild")["text"].to_list())))
except AiflameError as error:
    print(error)
"""


def wild(path: Path, frame: pl.DataFrame) -> Path:
    """A profile with a table of that name."""
    (path / "tables").mkdir(parents=True)
    Meta().write(Folder.open(path))
    tables = Folder.open(path).folder("tables")
    parts = {"processes": pl.DataFrame({"pid": [1]}), "wild": frame}
    Index({name: (write_part(tables, name, "00000", rows),) for name, rows in parts.items()}).write(tables)
    return path


def one_long_text() -> pl.DataFrame:
    return pl.DataFrame({"text": ["x" * (400 << 20)]})


def one_long_blob() -> pl.DataFrame:
    return pl.DataFrame({"text": [b"\0" * (400 << 20)]})


def many_rows_with_the_same_text() -> pl.DataFrame:
    return pl.DataFrame({"text": ["x" * 4096]}).select(pl.col("text").repeat_by(600_000).explode())


FAR_MORE = "would take far more memory than a table of"


@pytest.mark.parametrize("make", [one_long_text, one_long_blob, many_rows_with_the_same_text], ids=lambda make: make.__name__)
def test_a_file_that_unpacks_to_far_more_is_refused_in_a_line_and_with_little_memory(
    tmp_path: Path, make: Callable[[], pl.DataFrame]
) -> None:
    path = wild(tmp_path / "p.aiflame", make())
    assert (path / "tables/wild/00000.parquet").stat().st_size < 1 << 20
    answer = said(READ, path)
    assert FAR_MORE in answer
    assert answer.count("\n") == 1


@pytest.mark.parametrize("frame", [pl.DataFrame({"text": [["a", "b"]]}), pl.DataFrame({"text": [{"a": 1}]}), pl.DataFrame({"a": [[[1]]]})])
def test_columns_in_columns_are_refused(tmp_path: Path, frame: pl.DataFrame) -> None:
    with pytest.raises(AiflameError, match="columns in columns"):
        open_profile(wild(tmp_path / "p.aiflame", frame)).table("wild")


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"text": ["", "a", None]}),
        pl.DataFrame({"text": [f"{number} " * 50 for number in range(30_000)]}),
        pl.DataFrame({"text": [b"x" * (8 << 20)], "n": [1.5], "s": [None]}, schema={"text": pl.Binary, "n": pl.Float64, "s": pl.Int8}),
        pl.DataFrame({"text": pl.Series([], dtype=pl.String)}),
        pl.DataFrame({"n": pl.int_range(3_000_000, eager=True)}),
    ],
)
def test_rows_and_texts_of_a_file_are_counted(frame: pl.DataFrame) -> None:
    data = io.BytesIO()
    frame.write_parquet(data, compression="zstd")
    counted = sizes(data, len(data.getbuffer()))
    assert counted.rows == len(frame)
    texts = sum(len(text) for name in frame.columns if frame[name].dtype in (pl.String, pl.Binary) for text in frame[name].drop_nulls())
    assert texts <= counted.texts
    assert counted.unpacked >= sum(frame[name].n_unique() for name in frame.columns) / 8


@pytest.mark.parametrize("seed", range(400))
def test_damage_is_an_error_of_its_own(seed: int) -> None:
    chance = random.Random(seed)
    data = io.BytesIO()
    frame = pl.DataFrame({"a": range(500), "b": [f"text {number % 7}" for number in range(500)]})
    frame.write_parquet(data, compression="zstd", row_group_size=200)
    damaged = bytearray(data.getvalue())
    for _ in range(chance.choice((1, 2, 8))):
        place = chance.choice((len(damaged) - chance.randrange(1, min(1200, len(damaged))), chance.randrange(len(damaged))))
        damaged[place] = chance.randrange(256)
    del damaged[len(damaged) - chance.choice((0, 0, 0, 1, 9)) :]
    with contextlib.suppress(NotOurs):
        assert sizes(io.BytesIO(damaged), len(damaged)).rows >= 0


@pytest.mark.parametrize(
    "data", [b"", b"\x19", b"\x19\xff\xff\xff\xff\x0f", b"\x1c" * 100, b"\x18\xff\xff\xff\xff\xff\x7f", b"\x16" + b"\xff" * 11, b"\x1d\x00"]
)
def test_bytes_that_are_no_thrift_are_refused(data: bytes) -> None:
    with pytest.raises(NotThrift):
        Reader(data, 100).structure()


def test_values_are_counted() -> None:
    with pytest.raises(NotThrift, match="too many values"):
        Reader(b"\x19\xf5\xc8\x01" + b"\x02" * 200 + b"\0", 100).structure()
