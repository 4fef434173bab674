"""Memory that grows: places whose blocks are never freed again, of which each step, or each stretch of time, adds some."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from aiflame.analyze.memory.containers import Holder, holder
from aiflame.analyze.memory.holders import with_places
from aiflame.analyze.places import places, short_place
from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.context import profile_steps
from aiflame.attribute.memory.blocks import blocks
from aiflame.values import dataclass

STRETCHES = 20
"""The run is divided into so many stretches, of whole steps where there are steps."""
FEWEST = 5
"""Steps or stretches that show whether memory grows."""
WARM_UP, PENDING = 1, 2
"""Stretches at the begin, whose blocks are the program's own state, and at the end, whose blocks may still be freed."""
ENDING = 100
"""Without steps: the last hundredth of all allocated bytes belongs to the end of the program, when all is freed."""
_BINS = 4096
_TIMES_NS = 1_000_000
"""Readers of files without times place events 1 ns apart: a run of less than a millisecond has none."""
LEAST_PART = 0.8
"""The share of the stretches between that must add blocks."""
LEAST_SHARE = 0.02
"""Of the bytes that are live at the end."""


@dataclass(frozen=True, slots=True)
class Growth:
    memory: str
    place: str
    """`file:line`, "" if no line of Python is known."""
    function: str
    pace: float
    """Bytes that a step adds; without steps a second; 0: the profile has no times."""
    of_steps: bool
    grown: int
    """Bytes that were allocated here after the first stretch and never freed."""
    share: float
    """Of all bytes of the process that are live at the end."""
    callers: tuple[str, ...]
    """The program's own lines that called this one where most was allocated, from the innermost outwards."""
    holder: Holder | None = None
    """The container that holds the blocks."""


@once
def growth(profile: Analysis) -> tuple[Growth, ...]:
    """In no order."""
    return tuple(_growth(profile))


def _growth(profile: Analysis) -> Iterator[Growth]:
    rows = blocks(profile)
    for (process, memory), own in rows.partition_by("process", "memory", as_dict=True, maintain_order=True).items():
        bounds, of_steps = _bounds(profile, int(process), own)
        if len(bounds) <= FEWEST:
            continue
        last = int(bounds[-1])
        held = own.filter((pl.col("begin_ns") <= last) & (pl.col("end_ns") > last))
        whole = int(held["bytes"].sum())
        stretch = np.searchsorted(bounds, held["allocated_ns"].to_numpy(), side="right") - 1
        judged = range(WARM_UP, len(bounds) - 1 - PENDING)
        added = with_places(profile, held.with_columns(stretch=pl.Series(stretch)).filter(pl.col("stretch") >= WARM_UP))
        for (file, line, function), of_place in added.partition_by("file", "line", "function", as_dict=True, maintain_order=True).items():
            sums = dict(of_place.group_by("stretch").agg(pl.col("bytes").sum()).rows())
            each = np.array([sums.get(number, 0) for number in judged], dtype=np.float64)
            grown = int(of_place["bytes"].sum())
            if np.count_nonzero(each) < max(LEAST_PART * len(each), 2) or grown < LEAST_SHARE * whole:
                continue
            many = _steps_within(profile, int(process), bounds) if of_steps else float(np.median(np.diff(bounds))) / 1e9
            where = f"{file}:{line}" if file else ""
            pace = float(each.mean()) / many if bounds[-1] - bounds[0] >= _TIMES_NS else 0.0
            stacks = of_place.group_by("stack").agg(pl.col("bytes").sum()).sort("bytes", "stack", descending=[True, False])
            lines = places(profile).own_lines(int(process), int(stacks["stack"][0]))
            callers = tuple(f"{name}() ({short_place(f'{path}:{at}')})" for path, at, name in lines[1:] if lines[0][:2] == (file, line))
            held_by = holder(profile, int(process), (str(memory), str(file), int(line), str(function)))
            yield Growth(str(memory), where, str(function), pace, of_steps, grown, grown / whole, callers, held_by)


def _bounds(profile: Analysis, process: int, rows: pl.DataFrame) -> tuple[Ints, bool]:
    """The moments between which the stretches lie, and whether these are steps."""
    steps = profile_steps(profile).rows.filter(pl.col("process") == process).sort("begin_ns")
    if len(steps) >= FEWEST:
        begins = steps["begin_ns"].cast(pl.Int64).to_numpy()
        ends = np.append(begins, int(steps["end_ns"].cast(pl.Int64).to_numpy().max()))
        every = -(-len(begins) // STRETCHES)
        return np.append(ends[:-1][::every], ends[-1]), True
    begin, size = (rows.filter(pl.col("begin_ns") > 0)[name].to_numpy() for name in ("begin_ns", "bytes"))
    if len(begin) < FEWEST:
        return np.zeros(0, dtype=np.int64), False
    sums, edges = np.histogram(begin, bins=_BINS, weights=size)
    so_far = np.cumsum(sums)
    last = edges[1 + np.searchsorted(so_far, so_far[-1] * (1 - 1 / ENDING))]
    return np.linspace(begin.min(), last, STRETCHES + 1).astype(np.int64), False


def _steps_within(profile: Analysis, process: int, bounds: Ints) -> float:
    """The number of steps in a stretch."""
    begins = profile_steps(profile).rows.filter(pl.col("process") == process)["begin_ns"].cast(pl.Int64).to_numpy()
    return max(float(np.median(np.diff(np.searchsorted(np.sort(begins), bounds)))), 1.0)
