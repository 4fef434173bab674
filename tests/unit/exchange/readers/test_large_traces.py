"""Steps of readers of large traces: finding the calls that launched work, writing rows in parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import aiflame
from aiflame.exchange.readers.door import import_to
from aiflame.exchange.readers.launch_keys import first_of_each, is_in, keys
from aiflame.profile.folder.door import Folder
from aiflame.profile.tables.writer import TableWriter

LARGE = 1 << 40


def ids(*pairs: tuple[int, int]) -> pl.DataFrame:
    return pl.DataFrame(pairs, schema={"process": pl.Int64, "correlation": pl.Int64}, orient="row")


@pytest.mark.parametrize("more", [0, LARGE], ids=["32 bits", "64 bits"])
def test_the_first_call_with_the_id_of_work_launched_it(more: int) -> None:
    calls = ids((0, more + 7), (1, more + 7), (0, more + 9), (1, more + 7), (0, 3), (0, more + 9))
    work = ids((1, more + 7), (0, more + 9), (2, 3), (0, more + 9))
    own, wanted = keys(calls, work)
    first = first_of_each(own, wanted)
    assert first.tolist() == [1, 2]
    assert is_in(wanted, own[first]).tolist() == [True, True, False, True]


def test_no_calls_launched_nothing() -> None:
    own, wanted = keys(ids(), ids((0, 1)))
    assert first_of_each(own, wanted).tolist() == []
    assert is_in(wanted, own).tolist() == [False]


def call(pid: int, name: str, begin: int, category: str = "cuda_runtime", **args: int) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": pid, "ts": begin, "dur": 5, "args": args}


def kernel(begin: int, **args: int) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": begin, "dur": 5, "args": {"device": 0, "stream": 7, **args}}


def imported(tmp_path: Path, *events: dict[str, Any]) -> aiflame.Profile:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    import_to(file, tmp_path / "p.aiflame")
    return aiflame.open(tmp_path / "p.aiflame")


def test_work_belongs_to_the_process_whose_call_launched_it(tmp_path: Path) -> None:
    profile = imported(
        tmp_path,
        call(11, "cudaLaunchKernel", 1000, correlation=1),
        call(11, "cudaEventRecord", 1005, correlation=4),
        call(22, "cudaLaunchKernel", 1010, correlation=2),
        call(22, "aten::mm", 1020, "cpu_op", **{"External id": 3}),
        kernel(1100, correlation=1),
        kernel(1110, correlation=2),
        kernel(1120, correlation=9, **{"External id": 3}),
        kernel(1130, correlation=10),
    )
    pids = dict(profile.table("processes").select("process", "pid").iter_rows())
    kernels = profile.table("kernels").sort("start_ns")
    assert [pids[process] for process in kernels["process"].to_list()] == [11, 22, 22, 11]  # the last one: the process with most launches
    launches = profile.table("launches").sort("correlation")
    assert [(pids[process], number) for process, number in launches.select("process", "correlation").iter_rows()] == [
        (11, 1),
        (22, 2),
        (22, 9),
    ]
    assert any(note.startswith("1 kernels and copies of the trace have no call") for note in profile.meta.degraded)


def test_events_of_no_thread_are_counted_and_no_calls(tmp_path: Path) -> None:
    profile = imported(tmp_path, call(1, "aten::mm", 1000, "cpu_op"), *(call(1, "sync", at, "cuda_sync") for at in (1100, 1200)))
    assert profile.meta.imported is not None
    assert profile.meta.imported.unused["events of category cuda_sync"] == 2
    assert int(profile.table("cpu_samples")["period_ns"].sum()) == 5000


def test_the_largest_table_is_written_when_rows_of_all_tables_are_many(tmp_path: Path) -> None:
    folder = Folder.new(tmp_path / "tables")
    writer = TableWriter(folder, most_waiting=1000)
    numbers = pl.DataFrame({"id": np.arange(50, dtype=np.uint64)})
    for table, parts in (("kernels", 0), ("copies", 0), ("kernels", 1), ("copies", 1), ("kernels", 2)):
        writer.add_many(table, np.zeros(50, np.uint32), numbers)
        assert len(list((tmp_path / "tables").glob("*/*.parquet"))) == parts
    index = writer.finish()
    assert {name: sum(part.rows for part in parts) for name, parts in index.tables.items()} == {"kernels": 150, "copies": 100}
    assert [len(index.tables[name]) for name in ("kernels", "copies")] == [2, 1]
