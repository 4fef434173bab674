"""Another process reads Parquet and Arrow first."""

from __future__ import annotations

import os
import signal
from io import BytesIO
from pathlib import Path

import polars as pl
import pytest

from aiflame.errors import AiflameError
from aiflame.exchange.readers.nsys import trial


@pytest.fixture
def reader() -> trial._OtherProcess:
    return trial._OtherProcess()


def _arrow() -> bytes:
    content = BytesIO()
    pl.DataFrame({"start": range(100), "name": ["kernel"] * 100}).write_ipc_stream(content)
    return content.getvalue()


def _tried(reader: trial._OtherProcess, data: bytes) -> int:
    reader.try_("a table", {"size": len(data)}, data)
    assert reader._process
    return reader._process.pid


def test_one_process_reads_one_after_the_other(reader: trial._OtherProcess) -> None:
    assert _tried(reader, _arrow()) == _tried(reader, b"no Arrow at all") == _tried(reader, _arrow())


def test_another_takes_the_place_of_one_that_has_ended(reader: trial._OtherProcess) -> None:
    first = _tried(reader, _arrow())
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)  # it ends by itself
    assert _tried(reader, _arrow()) != first


@pytest.mark.parametrize(
    ("size", "asked"), [(1 << 16, [["a", "b", "c"], ["a"], ["b"], ["c"]]), (1 << 20, [["a"], ["b"], ["c"]])], ids=["small", "large"]
)
def test_each_column_is_read_whichever_fails(size: int, asked: list[list[str]]) -> None:
    were_read = []

    def read(names: list[str]) -> pl.DataFrame:
        were_read.append(names)
        if "a" in names:
            raise pl.exceptions.ComputeError("damaged")
        return pl.DataFrame()

    trial._read(size, ["a", "b", "c"], read)
    assert were_read == asked


def test_what_ends_it_is_refused_in_a_sentence(reader: trial._OtherProcess) -> None:
    pid = _tried(reader, _arrow())
    os.kill(pid, signal.SIGABRT)
    with pytest.raises(AiflameError, match="cannot read a table: it is damaged, or needs too much memory for its size"):
        _tried(reader, _arrow())
    assert _tried(reader, _arrow()) != pid


def test_the_child_of_a_fork_asks_a_process_of_its_own(reader: trial._OtherProcess) -> None:
    pid = _tried(reader, _arrow())
    child = os.fork()
    if child == 0:
        os._exit(int(_tried(reader, _arrow()) == pid))
    assert os.waitpid(child, 0)[1] == 0
    assert _tried(reader, _arrow()) == pid


def test_a_column_that_is_larger_than_its_limit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "long.parquet"
    pl.select(pl.repeat(0, 400_000_000, dtype=pl.Int64, eager=False).alias("start")).lazy().sink_parquet(file)
    with pytest.raises(AiflameError, match="too much memory"):
        trial.try_parquet(file)
