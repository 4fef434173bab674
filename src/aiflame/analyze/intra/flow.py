"""Copies that one role of a kernel makes and another waits for.

No record says which warp waits for a copy. In a loop, the n-th wait of a consumer is for the producer's n-th copy, counted from the end, as
long as no record is missing. A copy had arrived when the first warp that waits for it went on.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.analyze.intra.data import Inside, Line
from aiflame.analyze.intra.kinds import Row, is_copy, is_copy_wait, is_math
from aiflame.analyze.intra.roles import roles_of_spans
from aiflame.attribute.arrays.types import Ints, Mask
from aiflame.values import dataclass

ALIKE = 0.1
"""Waits belong to copies if their numbers differ by less than this part (rings may have wrapped)."""
ODD = 2
"""Or by at most this many copies at the edge of the complete records."""
MOST_SLOTS = 16
NO_WAIT_NS = 50
"""The longest duration of a wait whose buffer is ready: some dozen cycles, and its record."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One of a pipeline's buffers, with the mean time of each wait for it."""

    number: int
    consumer_ns: float
    """The consumer's wait until the buffer is full."""
    producer_ns: float
    """The producer's wait until the buffer is empty."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Arrays with a value for each copy, in the order of CTAs and of issue."""

    producer: int
    """The producer's role, as a place in the order of `intra_scopes`."""
    consumers: tuple[int, ...]
    cta: Ints
    number: Ints
    """The copy's number in its CTA and scope, counted from the end: the last is 0."""
    begin: Ints
    end: Ints
    """When the first warp that waited for it went on."""
    waits: Ints
    """Rows of the line: spans of consumers that wait for copies."""
    wait_ctas: Ints
    wait_numbers: Ints
    slots: int
    """The number of copies that fit at once, which is the most by which the producer is ahead. 0: unknown."""


def flow(inside: Inside) -> Flow | None:
    """None if the kernel's roles do not hand copies on."""
    roles = roles_of_spans(inside)
    if roles is None or len(roles.names) < 2:
        return None
    line, role = inside.line, roles.role
    scope = inside.spans["scope"].to_numpy()[line.order]
    rows: list[Row] = inside.scopes.to_dicts()
    copies, waits, math = ([row["scope"] for row in rows if test(row)] for test in (is_copy, is_copy_wait, is_math))
    multiplies = set(np.unique(role[np.isin(scope, math)]).tolist())
    copying = np.isin(scope, copies) & (role >= 0) & ~np.isin(role, list(multiplies))
    if not copying.any():
        return None
    producer = int(np.bincount(role[copying]).argmax())
    copying &= role == producer
    waiting = np.isin(scope, waits) & (role >= 0) & (role != producer)
    if not waiting.any():
        return None
    issued = _first_warp(line, _frame(line, scope, copying))
    received = _frame(line, scope, waiting)
    per_cta, per_warp = (_each(frame, unit) for frame, unit in ((issued, "cta"), (received, "unit")))
    pairs = per_cta.join(per_warp, how="cross", suffix="_of_wait").filter(
        (pl.col("each_of_wait") - pl.col("each")).abs() <= pl.max_horizontal(pl.col("each") * ALIKE, ODD)
    )  # fmt: skip
    if pairs.is_empty():
        return None
    pairs = pairs.select("scope", "scope_of_wait")
    # A warp that waits for several copies each time has all of them with the last; the first warp that has them determines the time.
    of_unit = (
        issued.select("cta", "scope", "number", "begin")
        .join(pairs, on="scope")
        .join(received, left_on=["cta", "scope_of_wait", "number"], right_on=["cta", "scope", "number"], suffix="_of_wait")
        .group_by("cta", "scope", "number", "begin", "unit")
        .agg(pl.col("end").max())
    )
    copied = of_unit.group_by("cta", "scope", "number", "begin").agg(pl.col("end").min()).sort("cta", "begin")
    used = received.filter(pl.col("scope").is_in(pairs["scope_of_wait"].unique().implode())).sort("row")
    consumers = tuple(np.unique(role[used["row"].to_numpy()]).tolist())
    cta, number, begin, end = (copied[name].to_numpy() for name in ("cta", "number", "begin", "end"))
    good = end > begin
    slots = _slots(copied.filter(pl.Series(good)), used)
    mine, ctas, numbers = (used[name].to_numpy() for name in ("row", "cta", "number"))
    return Flow(producer, consumers, cta[good], number[good], begin[good], end[good], mine, ctas, numbers, slots)


def slot_times(inside: Inside, flow: Flow) -> list[Slot]:
    """The waits for each buffer, on both sides; none if the number of buffers is unknown."""
    if not 1 < flow.slots <= MOST_SLOTS:
        return []
    line, roles = inside.line, roles_of_spans(inside)
    assert roles is not None
    scope = inside.spans["scope"].to_numpy()[line.order]
    took = inside.spans["took_ns"].to_numpy()[line.order].astype(np.float64)
    waits = [row["scope"] for row in inside.scopes.to_dicts() if is_copy_wait(row)]
    for_room = _frame(line, scope, np.isin(scope, waits) & (roles.role == flow.producer))
    if not len(for_room) or np.quantile(took[for_room["row"].to_numpy()], 0.9) <= NO_WAIT_NS:
        return []  # the producer was never far enough ahead to wait for room
    sides = ((flow.waits, flow.wait_numbers), (for_room["row"].to_numpy(), for_room["number"].to_numpy()))
    means = []
    for row, number in sides:
        slot = number % flow.slots
        count = np.maximum(np.bincount(slot, minlength=flow.slots), 1)
        means.append(np.bincount(slot, took[row], flow.slots) / count)
    return [Slot(number, float(full), float(empty)) for number, (full, empty) in enumerate(zip(*means, strict=True))]


def _frame(line: Line, scope: Ints, mine: Mask) -> pl.DataFrame:
    """Spans, each with its number in its scope and warp, counted from the end."""
    row = np.flatnonzero(mine)
    cta, begin = line.cta[row], line.begin[row]
    columns = {"row": row, "cta": cta, "unit": line.unit[row], "scope": scope[row].astype(np.int64), "begin": begin, "end": line.end[row]}
    frame = pl.DataFrame(columns).with_columns(seen=pl.Series(begin >= line.window_begin[cta]))
    return frame.with_columns(number=(pl.len() - 1 - pl.int_range(pl.len())).over("unit", "scope").cast(pl.Int64))


def _each(frame: pl.DataFrame, unit: str) -> pl.DataFrame:
    """How often each scope ran in a warp, where no records are missing."""
    return frame.group_by(unit, "scope").agg(pl.col("seen").sum()).group_by("scope").agg(each=pl.col("seen").median())


def _first_warp(line: Line, frame: pl.DataFrame) -> pl.DataFrame:
    """The spans of one warp in each CTA: all warps of a producer record the same work, which one of them does."""
    return frame.filter(pl.col("unit") == pl.col("unit").min().over("cta"))


def _slots(copies: pl.DataFrame, waits: pl.DataFrame) -> int:
    """The number of buffers in the pipeline: the most that are in use at once. A buffer is in use from the copy into it until the consumer
    waits for the next one."""
    scope, unit_scope = copies["scope"].mode().min(), waits["scope"].mode().min()
    mine = copies.filter(pl.col("scope") == scope).select("cta", pl.col("number").alias("copy"), pl.col("begin").alias("at")).sort("at")
    steps = waits.filter(pl.col("scope") == unit_scope).select("cta", "number", pl.col("begin").alias("at")).sort("at")
    joined = mine.join_asof(steps, on="at", by="cta", strategy="backward", check_sortedness=False).drop_nulls("number")
    if joined.is_empty():
        return 0
    # Numbers decrease. Of the waits that began before the copy, all but the latest are over.
    used = joined["number"] - joined["copy"] + 1
    return max(round(float(used.quantile(0.99, "nearest") or 0)), 0)
