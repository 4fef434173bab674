"""Captures of a process → the tables of `profile.tables_intra`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.profile.schema.tables_intra import INTRA_SPANS, TABLES

from .captures import MOST_SCOPES, Bytes, Captures, Kernel, Launch
from .clocks import Edges, Pace, offsets, paces, record_cost
from .cta_ring import straight
from .decode import Ctas, Ints, Layout, Nest, Records, Spans, nested, opened, paired, records

MOST_SPANS = 2_000_000
"""Kept of a process."""
LOOKED_AT, CTAS_LOOKED_AT = 3, 64
"""Launches of each kernel, and CTAs of each, from which the cost of a record is estimated."""

Rows = dict[str, list[pl.DataFrame]]


@dataclass(frozen=True, slots=True)
class Ran:
    """When the kernel of a launch ran, by the device's own records."""

    start_ns: int
    end_ns: int


@dataclass(slots=True)
class Made:
    tables: dict[str, pl.DataFrame]
    notes: list[str] = field(default_factory=list)


def tables(process: int, captures: Captures, ran: Callable[[Kernel, Launch], Ran | None], most_spans: int = MOST_SPANS) -> Made:
    """`ran`: when a launch ran, where that is known. A kernel without launches is in `intra_kernels` alone."""
    rows: Rows = {name: [] for name in TABLES}
    lost: Counter[str] = Counter()
    launch_number = 0
    budget = most_spans // max(len({launch.key for launch in captures.launches}), 1)
    by_device: dict[int, list[_Read]] = {}
    usual = _cost(captures)
    for number, kernel in enumerate(captures.kernels.values(), 1):
        mine = [launch for launch in captures.launches if launch.key == kernel.key]
        cost = kernel.record_cycles if kernel.record_cycles >= 0 else usual
        rows["intra_kernels"].append(_kernel_row(process, number, kernel, cost))
        rows["intra_scopes"].append(_scope_rows(process, number, kernel))
        paths = _Paths()
        left = budget
        for launch in mine:
            launch_number += 1
            found = _records(kernel, _memory(kernel, launch))
            one = _Read.of(process, launch_number, number, launch, found, paths, cost, ran(kernel, launch))
            kept = one.keep(left)
            left = max(left - kept, 0)
            by_device.setdefault(launch.device, []).append(one)
            gone = launch.ctas - len(found.ctas) - found.ctas.bad if launch.went_round else 0
            lost.update(bad=found.ctas.bad, dropped=int(found.dropped.sum()), gone=gone)
        rows["intra_paths"].append(paths.frame(process, number))
    for reads in by_device.values():
        _convert(process, reads, rows)
    made = {name: pl.concat([pl.DataFrame(schema=dict(columns)), *rows[name]]) for name, columns in TABLES.items()}
    return Made(made, _notes(captures, lost))


def _memory(kernel: Kernel, launch: Launch) -> Bytes:
    """Of the CTAs that are left."""
    return straight(launch.data, kernel.scratch_bytes, launch.ctas) if launch.went_round else launch.data


def _records(kernel: Kernel, memory: Bytes) -> Records:
    return records(memory, Layout(kernel.warps, kernel.recorded, kernel.scratch_bytes, kernel.clock_bits))


def _cost(captures: Captures) -> float:
    """The cost of a record: the least of all kernels, since a kernel whose records never follow each other at once gives too much."""
    found = []
    for kernel in captures.kernels.values():
        mine = [launch for launch in captures.launches if launch.key == kernel.key][:LOOKED_AT]
        few = [_memory(kernel, one)[: CTAS_LOOKED_AT * kernel.scratch_bytes] for one in mine]
        found.append(record_cost([_records(kernel, one) for one in few]))
    return min((cost for cost in found if cost > 0), default=0.0)


def _notes(captures: Captures, lost: Mapping[str, int]) -> list[str]:
    left_out = sum(kernel.scopes_left_out for kernel in captures.kernels.values())
    told = {
        f"scopes inside kernels are not timed: only {MOST_SCOPES} of a kernel can be told apart, and the outermost were kept": left_out,
        "captures of launches that were cut off": captures.torn,
        "damaged captures of launches were left out": captures.damaged,
        "CTAs of instrumented kernels whose memory holds no records": lost.get("bad", 0),
        "records inside kernels were overwritten by later ones: their rings are too small": lost.get("dropped", 0),
        "CTAs of large launches were overwritten by later ones: the last are kept": lost.get("gone", 0),
    }
    return [f"{count:,} {what}" for what, count in told.items() if count]


class _Paths:
    """Paths of one kernel, over its launches."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, bool], int] = {}

    def number(self, nest: Nest, beside: Sequence[int]) -> tuple[NDArray[np.int64], dict[int, int]]:
        """The number of each of a nest's paths, and of each scope that lies beside the others."""
        found = np.zeros(len(nest.paths), dtype=np.int64)
        for row, (parent, scope) in enumerate(nest.paths.tolist()):
            found[row] = self._of(int(found[parent]) if parent >= 0 else 0, scope, False)
        return found, {scope: self._of(0, scope, True) for scope in beside}

    def _of(self, parent: int, scope: int, beside: bool) -> int:
        return self._known.setdefault((parent, scope, beside), len(self._known) + 1)

    def frame(self, process: int, kernel: int) -> pl.DataFrame:
        columns = TABLES["intra_paths"]
        told = [(process, kernel, path, parent, scope, beside) for (parent, scope, beside), path in self._known.items()]
        return pl.DataFrame(told, schema=dict(columns), orient="row")


@dataclass(slots=True)
class _Read:
    """A launch whose records are read: in cycles still."""

    process: int
    number: int
    kernel: int
    launch: Launch
    ran: Ran | None
    ctas: Ctas
    recorded: tuple[int, ...]
    edges: Edges
    whole: Edges
    origin: dict[int, int]
    unpaired: int
    of_units: pl.DataFrame
    """unit, records, dropped, oldest (cycles of its oldest record), cost (cycles of its records)"""
    times: pl.DataFrame
    """path, count, took, own, least, median, p95, most"""
    spans: pl.DataFrame
    """unit, scope, path, depth, begin, end, took, own"""
    kept: bool = False

    @property
    def has_first(self) -> bool:
        """Of the launch's CTAs."""
        return self.launch.first_cta == 0 and not self.launch.went_round

    @staticmethod
    def of(
        process: int,
        number: int,
        kernel_number: int,
        launch: Launch,
        found: Records,
        paths: _Paths,
        cost: float,
        ran: Ran | None,
    ) -> _Read:
        counted = found.kept
        found = opened(found)
        spans = paired(found)
        edges = Edges.of(found)
        rows = _spans(found, spans, paths, cost)
        summed = rows.group_by("path").agg(
            pl.len().alias("count"),
            pl.col("took", "own").sum(),
            least=pl.col("took").min(),
            median=pl.col("took").median(),
            p95=pl.col("took").quantile(0.95),
            most=pl.col("took").max(),
        )
        oldest = np.zeros(found.units, dtype=np.int64)
        used = found.kept > 0
        oldest[used] = found.clock[found.first[used]]
        units = pl.DataFrame(
            {
                "unit": np.arange(found.units),
                "records": counted,
                "dropped": found.dropped,
                "oldest": oldest,
                "cost": counted * cost,
            }
        )
        return _Read(
            process,
            number,
            kernel_number,
            launch,
            ran,
            found.ctas,
            found.recorded,
            edges,
            edges.whole(found.dropped),
            found.origin,
            spans.unpaired,
            units,
            summed.sort("path"),
            rows,
        )

    def keep(self, room: int) -> int:
        """Keeps the spans if there is room, of a kernel's first launch those of some multiprocessors at least; how many."""
        if len(self.spans) <= room:
            self.kept = True
            return len(self.spans)
        if room <= 0:
            self.spans = self.spans.clear()
            return 0
        sm = self.ctas.sm[self.spans["unit"].to_numpy() // len(self.recorded)]
        each = np.bincount(sm)
        reached = np.cumsum(each)
        self.spans = self.spans.filter(pl.Series(reached[sm] <= max(room, reached[each > 0][0])))
        self.kept = True
        return room


def _spans(found: Records, spans: Spans, paths: _Paths, cost: float) -> pl.DataFrame:
    nest = nested(found, spans)
    scope = found.scope[spans.begin]
    apart = sorted(set(np.unique(scope[nest.path < 0]).tolist()))
    numbers, of_scope = paths.number(nest, apart)
    table = np.zeros(256, dtype=np.int64)
    for one, number in of_scope.items():
        table[one] = number
    path = np.where(nest.path >= 0, numbers[np.maximum(nest.path, 0)] if len(numbers) else 0, table[scope])
    begin, end = found.clock[spans.begin], found.clock[spans.end]
    # A record's clock is read, then it is written: a span pays for its begin and for all that lie inside of it.
    took = np.maximum((end - begin) - cost * (spans.end - spans.begin), 0.0)
    inside = nest.parent >= 0
    covered = np.bincount(nest.parent[inside], took[inside], len(took))
    depth = np.zeros(len(took), dtype=np.uint16)
    level = np.flatnonzero(inside)
    above = nest.parent.copy()
    while len(level):
        depth[level] += 1
        above[level] = nest.parent[above[level]]
        level = level[above[level] >= 0]
    return pl.DataFrame(
        {
            "unit": found.unit[spans.begin],
            "scope": scope,
            "path": path.astype(np.uint32),
            "depth": depth,
            "begin": begin,
            "end": end,
            "took": took,
            "own": np.maximum(took - covered, 0.0),
        }
    )


def _convert(process: int, reads: Sequence[_Read], rows: Rows) -> None:
    """From cycles to nanoseconds of the profile's clock, all launches of a device."""
    reads = sorted(reads, key=lambda one: int(one.ctas.begin.min()) if len(one.ctas) else 0)
    found = paces([(one.edges, one.whole) for one in reads], [one.origin for one in reads])
    shifts = [one.ran.start_ns - int(one.ctas.begin.min()) for one in reads if one.ran and len(one.ctas) and one.has_first]
    usual = int(np.median(shifts)) if shifts else None
    for one, pace in zip(reads, found, strict=True):
        _rows(process, one, pace, _shift(one, usual), rows)


def _shift(one: _Read, usual: int | None) -> int:
    """The conversion of the globaltimer into the profile's clock."""
    if not len(one.ctas):
        return 0
    first, last = int(one.ctas.begin.min()), int(one.ctas.end.max())
    if one.ran is None:
        return usual if usual is not None else one.launch.begin_ns - first
    at_first = one.ran.start_ns - first
    if one.has_first:
        return at_first
    at_last = max(one.ran.end_ns - last, at_first)
    if usual is None:
        return at_last if one.launch.went_round else at_first
    return min(max(usual, at_first), at_last)


def _rows(process: int, one: _Read, pace: Pace, shift: int, rows: Rows) -> None:
    ctas, width, ns = one.ctas, max(len(one.recorded), 1), pace.ns if np.isfinite(pace.ns) else 1.0
    zero = (int(ctas.begin.min()) if len(ctas) else 0) + shift
    at = offsets(one.edges, ns)  # of each CTA, relative to zero
    unit = one.of_units["unit"].to_numpy()
    row = unit // width
    begin, end = ctas.begin + shift, ctas.before_end + shift
    oldest = zero + np.rint(at[row] + ns * one.of_units["oldest"].to_numpy()).astype(np.int64)
    cut = one.of_units["dropped"].to_numpy() > 0
    since = np.where(cut, np.clip(oldest, begin[row], end[row]), begin[row])
    covered = np.maximum(end[row] - since - ns * one.of_units["cost"].to_numpy(), 0.0)
    key = {"process": pl.lit(process, pl.UInt32), "launch": pl.lit(one.number, pl.UInt32)}
    warp = np.array(one.recorded)[unit % width] if len(unit) else unit
    units = one.of_units.with_columns(
        cta=pl.Series(ctas.number[row]), warp=pl.Series(warp), begin_ns=pl.Series(since), covered_ns=pl.Series(covered)
    )
    recorded = units.filter(pl.col("records") > 0)
    if one.kept:
        rows["intra_warps"].append(_typed("intra_warps", recorded.with_columns(**key)))
        of_ctas = pl.DataFrame({"cta": ctas.number, "sm": ctas.sm, "begin_ns": begin, "done_ns": end, "end_ns": ctas.end + shift})
        rows["intra_ctas"].append(_typed("intra_ctas", of_ctas.with_columns(**key)))
        rows["intra_spans"].append(_span_rows(one, at, ns, zero, key))
    times = one.times.with_columns((pl.col("took", "own", "least", "median", "p95", "most") * ns).name.suffix("_ns"), **key)
    rows["intra_times"].append(_typed("intra_times", times))
    launch = one.launch
    told = {
        "process": process,
        "launch": one.number,
        "kernel": one.kernel,
        "device": launch.device,
        "stream": launch.stream,
        "number": launch.number,
        "grid": min(launch.grid[0] * launch.grid[1] * launch.grid[2], (1 << 63) - 1),
        "ctas": len(ctas),
        "bad_ctas": ctas.bad,
        "start_ns": one.ran.start_ns if one.ran else 0,
        "end_ns": one.ran.end_ns if one.ran else 0,
        "begin_ns": int(begin.min()) if len(ctas) else 0,
        "span_ns": int(ctas.end.max() - ctas.begin.min()) if len(ctas) else 0,
        "ns_per_cycle": ns,
        "ns_per_cycle_error": pace.error,
        "records": int(one.of_units["records"].sum()),
        "dropped": int(one.of_units["dropped"].sum()),
        "unpaired": one.unpaired,
        "dropped_launches": launch.dropped_launches,
        "warp_ns": float(recorded["covered_ns"].sum()),
        "kept": one.kept,
    }
    rows["intra_launches"].append(pl.DataFrame([told], schema=dict(TABLES["intra_launches"])))


def _span_rows(one: _Read, at: NDArray[np.float64], ns: float, zero: int, key: dict[str, pl.Expr]) -> pl.DataFrame:
    width = max(len(one.recorded), 1)
    unit = one.spans["unit"].to_numpy()
    row = unit // width
    moved = at[row]
    columns: dict[str, Ints] = {
        "cta": one.ctas.number[row],
        "warp": np.array(one.recorded)[unit % width],
        "begin_ns": zero + np.rint(moved + ns * one.spans["begin"].to_numpy()).astype(np.int64),
        "end_ns": zero + np.rint(moved + ns * one.spans["end"].to_numpy()).astype(np.int64),
    }
    told = one.spans.select("scope", "path", "depth", took_ns=pl.col("took") * ns, own_ns=pl.col("own") * ns)
    return told.with_columns(**{name: pl.Series(value) for name, value in columns.items()}, **key).select(
        pl.col(name).cast(kind) for name, kind in INTRA_SPANS.items()
    )


def _typed(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(pl.col(name).cast(kind) for name, kind in TABLES[table].items())


def _kernel_row(process: int, number: int, kernel: Kernel, cost: float) -> pl.DataFrame:
    plain, now = kernel.plain, kernel.instrumented
    row = (
        process,
        number,
        kernel.name,
        kernel.file,
        kernel.line,
        kernel.warps,
        len(kernel.recorded),
        kernel.arch,
        kernel.triton,
        cost,
        plain.registers,
        now.registers,
        plain.shared,
        now.shared,
        plain.spills,
        now.spills,
        plain.ns,
    )
    return pl.DataFrame([row], schema=dict(TABLES["intra_kernels"]), orient="row")


def _scope_rows(process: int, number: int, kernel: Kernel) -> pl.DataFrame:
    told = [
        (process, number, one.number, one.name, one.of_pass, one.kind, one.op, one.file, one.line, one.loop, one.phase, one.pair)
        for one in kernel.scopes
    ]
    return pl.DataFrame(told, schema=dict(TABLES["intra_scopes"]), orient="row")


__all__ = ["MOST_SPANS", "Made", "Ran", "tables"]
