"""What ran on devices, and where it was launched: kernels and copies joined with launches and graph nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from aiflame.attribute.analysis import Analysis, once_for
from aiflame.attribute.arrays.chunks import PIECE
from aiflame.attribute.arrays.row_keys import packed
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.devices.records import Columns, Records
from aiflame.attribute.meaning.context import CONTEXT, Meaning, of_devices
from aiflame.attribute.prefixes import Prefix
from aiflame.profile.tables import Tables

MOST_BYTES = 1 << 50
JOIN = ["process", "api", "correlation"]
SITE = ["process", "thread", "stack", "graph", "captured", "kind", "name", "device", "readable", "told"]
_NUMBERS = ("process", "thread", "stack", "graph", "captured", "item", "specialization")
"""The same as numbers."""
_TIMES = ("start_ns", "end_ns")
_SUMS = ("took", "launches", "bytes")


@dataclass(frozen=True, slots=True)
class Work:
    sites: pl.DataFrame
    """Each place that something was launched from, with what: SITE, and `took` (ns), `launches`, `bytes` of all that ran from there.
    `graph`: it ran for a graph's node, that `captured` (a stack, 0: unknown) made. `readable` and `told`: short and full name of a kernel
    that is a known specialization, else null."""
    ran: pl.DataFrame
    """`site` (row of `sites`), `launch` (row of `launches` of its process, 0: unknown), `start_ns`, `end_ns` (never before the start),
    and where meaning was asked for `step`."""


@once_for
def work(profile: Analysis, by: Prefix | None) -> Work:
    """All that ran on devices, by where it was launched and by the columns of `by`."""
    needs_meaning = by is not None and not set(by.columns).isdisjoint(CONTEXT)
    return work_with(profile, by, of_devices(profile) if needs_meaning else None)


def work_with(profile: Tables, by: Prefix | None, meaning: Meaning | None) -> Work:
    """The same with a meaning of the caller's; None where no column of CONTEXT is asked for. A kernel's launch has its correlation id; of
    several launches with one id the first counts.

    `sites` have the columns of `by` too; without code, they are not told apart by the code that launched."""
    records = Records.of(profile, meaning)
    more = [column for column in by.columns if column != "family"] if by is not None else []
    columns = {"site": np.uint32, "launch": np.uint32, "start_ns": np.uint64, "end_ns": np.uint64}
    if records.meaning is not None:
        columns["step"] = np.int32
    ran: Columns = {name: np.zeros(len(records), dtype=kind) for name, kind in columns.items()}
    met: list[pl.DataFrame] = []
    at = sites = 0
    for piece in records.pieces():
        told = piece | records.told(piece)
        if by is not None and not by.code:
            told |= _without_code(told)
        site, found = _sites(told, [*_NUMBERS, *more])
        told["site"] = site + sites
        here = slice(at, at + len(site))
        for name, column in ran.items():
            column[here] = told[name]
        met.append(found)
        at, sites = here.stop, sites + len(found)
    known, number = _together(records, met, more)
    for begin in range(0, at, PIECE):
        here = slice(begin, begin + PIECE)
        ran["site"][here] = number[ran["site"][here]]
    return Work(known, pl.DataFrame(ran))


def bytes_of(profile: Tables, done: Work) -> Ints:
    """How much each of `done.ran` has moved: they stand there as they were read, kernels first."""
    moved = profile.scan("copies").select(pl.col("bytes").clip(upper_bound=MOST_BYTES).cast(pl.Int64)).collect()["bytes"].to_numpy()
    found = np.zeros(len(done.ran), dtype=np.int64)
    found[len(found) - len(moved) :] = moved
    return found


def _without_code(told: Columns) -> Columns:
    zeros = np.zeros(len(told["thread"]), dtype=np.uint32)
    return {"stack": zeros, "captured": zeros, "graph": zeros != 0, "thread": np.minimum(told["thread"], 0)}


def _sites(told: Columns, names: Sequence[str]) -> tuple[Ints, pl.DataFrame]:
    """The site of each that ran, and the sites: `names`, and the sums of what ran from there."""
    rows = pl.DataFrame({name: told[name] for name in (*_TIMES, "bytes")})
    rows = rows.with_columns(key=packed([told[name] for name in names], len(rows)))
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
    found = summed.select(_SUMS).with_columns(pl.Series(name, told[name][first]) for name in names)
    return np.searchsorted(summed["key"].to_numpy(), rows["key"].to_numpy()), found


def _together(records: Records, met: Sequence[pl.DataFrame], more: list[str]) -> tuple[pl.DataFrame, Ints]:
    """Sites that were met in several pieces, each once, and in order; and the row of each that was met."""
    every = pl.concat(met)
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
