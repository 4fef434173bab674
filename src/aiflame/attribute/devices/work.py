"""Kernels and copies joined with the launches and graph nodes that they ran for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once_for
from aiflame.attribute.arrays.chunks import PIECE
from aiflame.attribute.arrays.row_keys import packed
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.devices.records import Columns, Records
from aiflame.attribute.meaning.context import CONTEXT, Meaning, of_devices
from aiflame.attribute.meaning.steady import steady
from aiflame.attribute.prefixes import STEADY, Prefix
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

MOST_BYTES = 1 << 50
JOIN = ["process", "api", "correlation"]
SITE = ["process", "thread", "stack", "graph", "captured", "kind", "name", "device", "readable", "detailed"]
_NUMBERS = ("process", "thread", "stack", "graph", "captured", "item", "specialization")
"""Those that are numbers."""
_TIMES = ("start_ns", "end_ns")
_SUMS = ("took", "launches", "bytes")


@dataclass(frozen=True, slots=True)
class Work:
    sites: pl.DataFrame
    """A row for each kernel or copy at each place that launched it: SITE, and the sums `took` (ns), `launches`, `bytes` of its executions.
    `graph`: it ran for a graph's node, created at the stack `captured` (0: unknown). `readable` and `detailed`: short and full name of a
    kernel's specialization, null if none is recorded."""
    executions: pl.DataFrame
    """`site` (row of `sites`), `launch` (row of `launches` of its process, 0: unknown), `start_ns`, `end_ns` (at least the start), and if
    meaning was asked for `step`."""


@once_for
def work(profile: Analysis, by: Prefix | None) -> Work:
    """All executions on devices, grouped by their launching code and by the columns of `by`."""
    needs_meaning = by is not None and not set(by.columns).isdisjoint((*CONTEXT, STEADY))
    return work_with(profile, by, of_devices(profile) if needs_meaning else None)


def work_with(profile: Tables, by: Prefix | None, meaning: Meaning | None) -> Work:
    """As `work`, with the caller's meaning; None if no column of CONTEXT is needed. A kernel's launch is the one with its correlation id;
    if several launches have it, the first counts.

    `sites` have the columns of `by` too; if these are without code, the launching code does not separate sites."""
    records = Records.of(profile, meaning)
    more = [column for column in by.columns if column != "family"] if by is not None else []
    columns = {"site": np.uint32, "launch": np.uint32, "start_ns": np.uint64, "end_ns": np.uint64}
    if records.meaning is not None:
        columns["step"] = np.int32
    executions: Columns = {name: np.zeros(len(records), dtype=kind) for name, kind in columns.items()}
    parts: list[pl.DataFrame] = []
    at = sites = 0
    for piece in records.pieces():
        values = piece | records.columns_of(piece)
        if by is not None and STEADY in by.columns:
            where = (values[name].astype(np.int64) for name in ("process", "step", "start_ns"))
            values[STEADY] = steady(Analysis.of(profile)).of(*where).astype(np.int32)
        if by is not None and not by.code:
            values |= _without_code(values)
        site, new_sites = _sites(values, [*_NUMBERS, *more])
        values["site"] = site + sites
        here = slice(at, at + len(site))
        for name, column in executions.items():
            column[here] = values[name]
        parts.append(new_sites)
        at, sites = here.stop, sites + len(new_sites)
    all_sites, number = _together(records, parts, more)
    for begin in range(0, at, PIECE):
        here = slice(begin, begin + PIECE)
        executions["site"][here] = number[executions["site"][here]]
    return Work(all_sites, pl.DataFrame(executions))


def bytes_of(profile: Tables, work: Work) -> Ints:
    """The bytes that each of `work.executions` moved. Kernels move none and come first."""
    moved = profile.scan("copies").select(pl.col("bytes").clip(upper_bound=MOST_BYTES).cast(pl.Int64)).collect()["bytes"].to_numpy()
    moved_bytes = np.zeros(len(work.executions), dtype=np.int64)
    moved_bytes[len(moved_bytes) - len(moved) :] = moved
    return moved_bytes


def _without_code(columns: Columns) -> Columns:
    zeros = np.zeros(len(columns["thread"]), dtype=np.uint32)
    return {"stack": zeros, "captured": zeros, "graph": zeros != 0, "thread": np.minimum(columns["thread"], 0)}


def _sites(columns: Columns, names: Sequence[str]) -> tuple[Ints, pl.DataFrame]:
    """The site of each execution; and the sites: the columns `names`, and the sums of their executions."""
    rows = pl.DataFrame({name: columns[name] for name in (*_TIMES, "bytes")})
    rows = rows.with_columns(key=packed([columns[name] for name in names], len(rows)))
    summed = (
        rows.with_row_index("row")
        .group_by("key")
        .agg(
            pl.col("row").first(),
            took=(pl.col("end_ns") - pl.col("start_ns")).sum().cast(pl.Int64),
            launches=pl.len().cast(pl.Int64),
            bytes=pl.col("bytes").clip(upper_bound=MOST_BYTES).sum().cast(pl.Int64),
        )
        .sort("key")
    )
    first = summed["row"].to_numpy()
    sites = summed.select(_SUMS).with_columns(pl.Series(name, columns[name][first]) for name in names)
    return np.searchsorted(summed["key"].to_numpy(), rows["key"].to_numpy()), sites


def _together(records: Records, parts: Sequence[pl.DataFrame], more: list[str]) -> tuple[pl.DataFrame, Ints]:
    """The distinct sites of all pieces in order, and for each site of `parts` its row among them."""
    every = pl.concat(parts)
    every = every.with_columns(key=packed([every[name].to_numpy() for name in (*_NUMBERS, *more)], len(every)))
    sites = (
        every.group_by("key")
        .agg(pl.col(_SUMS).sum(), pl.col(*_NUMBERS, *more).first())
        .join(records.items.rows, on="item", how="left", maintain_order="left")
        .join(records.specializations.rows, on="specialization", how="left", maintain_order="left")
        .sort(SITE + more)
    )
    number = every.join(sites.select("key").with_row_index("site"), on="key", how="left", maintain_order="left")["site"]
    return sites.drop("key", "item", "specialization"), number.to_numpy().astype(np.int64)
