"""The reports of nsys, beside a reckoning in SQL over the tables of its own files, as its documented scripts reckon."""

from __future__ import annotations

import os
import re
import sqlite3
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import nsys_files as made
import polars as pl
import pytest

import aiflame

REAL = sorted(Path(os.environ.get("AIFLAME_TRACES", "/nowhere"), "nsys").glob("*.sqlite"))
Sums = dict[str, list[int]]
"""The values of each name."""

VERSION = re.compile(r"_v\d+$")
"""nsys cuts versions of four digits off only: `cudaLaunchKernel_v7000`, but `cudaGraphLaunch_v10000`."""
KERNELS = """SELECT s.value, k.end - k.start FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName"""
CALLS = """SELECT s.value, r.end - r.start FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId"""
SYSTEM = """SELECT s.value, o.end - o.start FROM OSRT_API o JOIN StringIds s ON s.id = o.nameId
    WHERE s.value NOT LIKE 'OS runtime libraries profiling%' AND o.end > o.start"""
RANGES = """SELECT coalesce(n.text, s.value), n.end - n.start FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId
    WHERE n.eventType IN (59, 70) AND n.end IS NOT NULL"""
COPIES = """SELECT copyKind, end - start FROM CUPTI_ACTIVITY_KIND_MEMCPY"""
BYTES = """SELECT copyKind, bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY"""
FILLS = """SELECT -1, end - start FROM CUPTI_ACTIVITY_KIND_MEMSET"""
FILLED = """SELECT -1, bytes FROM CUPTI_ACTIVITY_KIND_MEMSET"""
EXECUTIONS = """SELECT s.value, k.end - r.start, r.end - r.start, k.start - r.end, k.end - k.start
    FROM CUPTI_ACTIVITY_KIND_KERNEL k
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId {of_its_process}
    JOIN StringIds s ON s.id = k.demangledName"""
OF_ITS_PROCESS = "AND r.globalTid / 0x1000000 = k.globalPid / 0x1000000"
NAMES = {
    -1: "[fill]",
    **dict.fromkeys((1, 3, 11), "[copy host→device]"),
    **dict.fromkeys((2, 4, 12), "[copy device→host]"),
    8: "[copy device→device]",
    10: "[copy device→other device]",
}


@pytest.fixture
def report(tmp_path: Path) -> Path:
    file: Path = made.write(tmp_path / "report.sqlite")
    return file


def asked(file: Path, query: str) -> list[tuple[object, ...]]:
    """The rows; none where the file has no such table: nsys leaves out empty ones."""
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError as error:
            assert "no such table" in str(error)
            return []


def sums(rows: list[tuple[object, ...]]) -> Sums:
    values: Sums = defaultdict(list)
    for name, value, *_ in rows:
        assert isinstance(value, int)
        values[NAMES[name] if isinstance(name, int) else VERSION.sub("", str(name))].append(value)
    return values


def figures(values: Sums) -> dict[str, tuple[float, ...]]:
    """As `nsys stats` prints them: total, count, average, median, least, largest, standard deviation, share."""
    whole = sum(map(sum, values.values()))
    return {
        name: tuple(
            round(float(value), 3)
            for value in (
                *(sum(of), len(of), statistics.fmean(of), statistics.median(of), min(of), max(of)),
                *(statistics.stdev(of) if len(of) > 1 else 0.0, 100 * sum(of) / whole if whole else 0.0),
            )
        )
        for name, of in values.items()
    }


def ours(rows: pl.DataFrame, name: str, count: str, unit: str = "ns") -> dict[str, tuple[float, ...]]:
    if "share_percent" not in rows.columns:
        rows = rows.with_columns(share_percent=pl.col(f"total_{unit}") * 100 / pl.col(f"total_{unit}").sum())
    columns = [name, f"total_{unit}", count, *(f"{part}_{unit}" for part in ("avg", "med", "min", "max", "stddev")), "share_percent"]
    return {row[0]: tuple(round(float(value), 3) for value in row[1:]) for row in rows.select(columns).iter_rows()}


def differing(mine: dict[str, tuple[float, ...]], wanted: dict[str, tuple[float, ...]]) -> list[object]:
    """The names whose figures differ, with both."""
    every = sorted({*mine, *wanted})
    return [
        (name, mine.get(name), wanted.get(name))
        for name in every
        if name not in mine or name not in wanted or mine[name] != pytest.approx(wanted[name], rel=1e-9, abs=0.01)
    ]


def unnamed(rows: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    """Figures by their order: aiflame writes the mangled names of kernels otherwise than nsys."""
    return {str(place): figures for place, figures in enumerate(sorted(rows.values()))}


def check(file: Path) -> None:
    profile = aiflame.open(file)
    tables: list[tuple[str, Callable[[], Sums], str, str, str]] = [
        ("nsys.cuda-api-sum", lambda: sums(asked(file, CALLS)), "name", "calls", "ns"),
        ("nsys.osrt-sum", lambda: sums(asked(file, SYSTEM)), "name", "calls", "ns"),
        ("nsys.cuda-gpu-mem-time-sum", lambda: sums(asked(file, COPIES) + asked(file, FILLS)), "operation", "count", "ns"),
        ("nsys.cuda-gpu-mem-size-sum", lambda: sums(asked(file, BYTES) + asked(file, FILLED)), "operation", "count", "bytes"),
    ]
    for report, reckoned, name, count, unit in tables:
        assert not differing(ours(profile.stats(report), name, count, unit), figures(reckoned())), report
    kernels = profile.stats("nsys.cuda-gpu-kern-sum").filter(~pl.col("name").str.starts_with("[CUDA graph"))
    assert not differing(unnamed(ours(kernels, "name", "instances")), unnamed(figures(sums(asked(file, KERNELS)))))


def test_a_made_report(report: Path) -> None:
    check(report)


@pytest.mark.parametrize("file", REAL, ids=lambda file: file.stem)
def test_real_reports(file: Path) -> None:
    check(file)


def executions(file: Path) -> Iterator[tuple[str, tuple[float, ...]]]:
    parts: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    columns = [row[1] for row in asked(file, "PRAGMA table_info(CUPTI_ACTIVITY_KIND_KERNEL)")]
    for name, *times in asked(file, EXECUTIONS.format(of_its_process=OF_ITS_PROCESS if "globalPid" in columns else "")):
        parts[str(name)].append(tuple(int(str(time)) for time in times))
    for name, rows in parts.items():
        whole, call, queue, kernel = zip(*rows, strict=True)
        waited = [time for time in queue if time > 0]
        average = statistics.fmean(waited) if waited else 0.0
        yield name, (len(rows), len(waited), sum(whole), statistics.fmean(call), average, statistics.fmean(kernel))


@pytest.mark.parametrize("file", REAL, ids=lambda file: file.stem)
def test_executions_of_kernels(file: Path) -> None:
    rows = aiflame.open(file).stats("nsys.cuda-kern-exec-sum")
    merged: dict[str, tuple[float, ...]] = {}
    for name, of in rows.partition_by("name", as_dict=True).items():
        count, queued, whole = (int(of[column].sum()) for column in ("count", "queued", "total_ns"))
        mean = {part: float((of[f"{part}_avg_ns"].fill_null(0) * of[many]).sum()) for part, many in PARTS}
        merged[str(name[0])] = (
            *(count, queued, whole, mean["api"] / count),
            *(mean["queue"] / queued if queued else 0.0, mean["kernel"] / count),
        )
    assert not differing(unnamed(merged), unnamed(dict(executions(file))))


PARTS = (("api", "count"), ("queue", "queued"), ("kernel", "count"))


@pytest.mark.parametrize("file", REAL, ids=lambda file: file.stem)
def test_ranges(file: Path) -> None:
    rows = aiflame.open(file).stats("nsys.nvtx-pushpop-sum")
    reckoned = sums([row for row in asked(file, RANGES) if ", seq = " not in str(row[0]) and ", op_id = " not in str(row[0])])
    mine = rows.group_by("range").agg(pl.col("total_ns", "instances").sum())
    assert {name: (total, count) for name, total, count in mine.iter_rows()} == {name: (sum(of), len(of)) for name, of in reckoned.items()}
