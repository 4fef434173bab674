"""Turns the captures of a process into the tables of `profile.schema.tables_intra`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.profile.schema.tables_intra import INTRA_SPANS, TABLES
from aiflame.values import dataclass, field

from .captures import MOST_SCOPES, Bytes, Captures, Kernel, Launch
from .clocks import Edges, Pace, offsets, paces, record_cost
from .cta_ring import straight
from .decode import Ctas, Ints, Layout, Nest, Records, Spans, nested, opened, paired, records

MOST_SPANS = 2_000_000
"""The most spans that are kept for each process."""
LOOKED_AT, CTAS_LOOKED_AT = 3, 64
"""The number of launches of each kernel, and of CTAs of each launch, that are used to estimate the cost of a record."""

Rows = dict[str, list[pl.DataFrame]]


@dataclass(frozen=True, slots=True)
class LaunchTimes:
    """Start and end of a launch's kernel in the device's own records."""

    start_ns: int
    end_ns: int


@dataclass(slots=True)
class IntraTables:
    tables: dict[str, pl.DataFrame]
    notes: list[str] = field(default_factory=list)


def tables(
    process: int, captures: Captures, times: Callable[[Kernel, Launch], LaunchTimes | None], most_spans: int = MOST_SPANS
) -> IntraTables:
    """The tables of a process. `times` gives those of a launch, if known. A kernel without launches is only in `intra_kernels`."""
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
            decoded = _records(kernel, _memory(kernel, launch))
            one = _Read.of(process, launch_number, number, launch, decoded, paths, cost, times(kernel, launch))
            kept = one.keep(left)
            left = max(left - kept, 0)
            by_device.setdefault(launch.device, []).append(one)
            gone = launch.ctas - len(decoded.ctas) - decoded.ctas.bad if launch.overwrote_ctas else 0
            lost.update(bad=decoded.ctas.bad, dropped=int(decoded.dropped.sum()), gone=gone)
        rows["intra_paths"].append(paths.frame(process, number))
    for reads in by_device.values():
        _convert(process, reads, rows)
    result = {name: pl.concat([pl.DataFrame(schema=dict(columns)), *rows[name]]) for name, columns in TABLES.items()}
    return IntraTables(result, _notes(captures, lost))


def _memory(kernel: Kernel, launch: Launch) -> Bytes:
    """The memory of the CTAs that were not overwritten."""
    return straight(launch.data, kernel.scratch_bytes, launch.ctas) if launch.overwrote_ctas else launch.data


def _records(kernel: Kernel, memory: Bytes) -> Records:
    return records(memory, Layout(kernel.warps, kernel.recorded, kernel.scratch_bytes, kernel.clock_bits))


def _cost(captures: Captures) -> float:
    """The cost of a record, in cycles: the minimum over kernels, since kernels with work between all records give too much."""
    costs = []
    for kernel in captures.kernels.values():
        mine = [launch for launch in captures.launches if launch.key == kernel.key][:LOOKED_AT]
        few = [_memory(kernel, one)[: CTAS_LOOKED_AT * kernel.scratch_bytes] for one in mine]
        costs.append(record_cost([_records(kernel, one) for one in few]))
    return min((cost for cost in costs if cost > 0), default=0.0)


def _notes(captures: Captures, lost: Mapping[str, int]) -> list[str]:
    left_out = sum(kernel.scopes_left_out for kernel in captures.kernels.values())
    counts = {
        f"scopes inside kernels are not timed: records distinguish only {MOST_SCOPES} in a kernel, and the outermost were kept": left_out,
        "captures of launches that were cut off": captures.torn,
        "damaged captures of launches were left out": captures.damaged,
        "CTAs of instrumented kernels whose memory holds no records": lost.get("bad", 0),
        "records inside kernels were overwritten by later ones: their rings are too small": lost.get("dropped", 0),
        "CTAs of large launches were overwritten by later ones: the last are kept": lost.get("gone", 0),
    }
    return [f"{count:,} {text}" for text, count in counts.items() if count]


class _Paths:
    """Numbers of a kernel's paths, the same in all its launches."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, bool], int] = {}

    def number(self, nest: Nest, beside: Sequence[int]) -> tuple[NDArray[np.int64], dict[int, int]]:
        """The number of each of a nest's paths, and of each scope that lies beside the others."""
        numbers = np.zeros(len(nest.paths), dtype=np.int64)
        for row, (parent, scope) in enumerate(nest.paths.tolist()):
            numbers[row] = self._of(int(numbers[parent]) if parent >= 0 else 0, scope, False)
        return numbers, {scope: self._of(0, scope, True) for scope in beside}

    def _of(self, parent: int, scope: int, beside: bool) -> int:
        return self._known.setdefault((parent, scope, beside), len(self._known) + 1)

    def frame(self, process: int, kernel: int) -> pl.DataFrame:
        columns = TABLES["intra_paths"]
        rows = [(process, kernel, path, parent, scope, beside) for (parent, scope, beside), path in self._known.items()]
        return pl.DataFrame(rows, schema=dict(columns), orient="row")


@dataclass(slots=True)
class _Read:
    """The decoded records of a launch, with times in cycles."""

    process: int
    number: int
    kernel: int
    launch: Launch
    on_device: LaunchTimes | None
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
        """Whether the launch's first CTA is among the records."""
        return self.launch.first_cta == 0 and not self.launch.overwrote_ctas

    @staticmethod
    def of(
        process: int,
        number: int,
        kernel_number: int,
        launch: Launch,
        decoded: Records,
        paths: _Paths,
        cost: float,
        times: LaunchTimes | None,
    ) -> _Read:
        counted = decoded.kept
        decoded = opened(decoded)
        spans = paired(decoded)
        edges = Edges.of(decoded)
        rows = _spans(decoded, spans, paths, cost)
        summed = rows.group_by("path").agg(
            pl.len().alias("count"),
            pl.col("took", "own").sum(),
            least=pl.col("took").min(),
            median=pl.col("took").median(),
            p95=pl.col("took").quantile(0.95),
            most=pl.col("took").max(),
        )
        oldest = np.zeros(decoded.units, dtype=np.int64)
        used = decoded.kept > 0
        oldest[used] = decoded.clock[decoded.first[used]]
        units = pl.DataFrame(
            {
                "unit": np.arange(decoded.units),
                "records": counted,
                "dropped": decoded.dropped,
                "oldest": oldest,
                "cost": counted * cost,
            }
        )
        return _Read(
            process,
            number,
            kernel_number,
            launch,
            times,
            decoded.ctas,
            decoded.recorded,
            edges,
            edges.whole(decoded.dropped),
            decoded.origin,
            spans.unpaired,
            units,
            summed.sort("path"),
            rows,
        )

    def keep(self, room: int) -> int:
        """Keeps the spans if there is room, otherwise those of some multiprocessors; returns how much of the room is used."""
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


def _spans(decoded: Records, spans: Spans, paths: _Paths, cost: float) -> pl.DataFrame:
    nest = nested(decoded, spans)
    scope = decoded.scope[spans.begin]
    apart = sorted(set(np.unique(scope[nest.path < 0]).tolist()))
    numbers, of_scope = paths.number(nest, apart)
    table = np.zeros(256, dtype=np.int64)
    for one, number in of_scope.items():
        table[one] = number
    path = np.where(nest.path >= 0, numbers[np.maximum(nest.path, 0)] if len(numbers) else 0, table[scope])
    begin, end = decoded.clock[spans.begin], decoded.clock[spans.end]
    # A record is written after its clock was read: a span includes the cost of its begin and of all records inside.
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
            "unit": decoded.unit[spans.begin],
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
    """Converts all launches of a device from cycles to nanoseconds of the profile's clock."""
    reads = sorted(reads, key=lambda one: int(one.ctas.begin.min()) if len(one.ctas) else 0)
    paces_of = paces([(one.edges, one.whole) for one in reads], [one.origin for one in reads])
    shifts = [one.on_device.start_ns - int(one.ctas.begin.min()) for one in reads if one.on_device and len(one.ctas) and one.has_first]
    usual = int(np.median(shifts)) if shifts else None
    for one, pace in zip(reads, paces_of, strict=True):
        _rows(process, one, pace, _shift(one, usual), rows)


def _shift(one: _Read, usual: int | None) -> int:
    """The difference between the profile's clock and the globaltimer."""
    if not len(one.ctas):
        return 0
    first, last = int(one.ctas.begin.min()), int(one.ctas.end.max())
    if one.on_device is None:
        return usual if usual is not None else one.launch.begin_ns - first
    at_first = one.on_device.start_ns - first
    if one.has_first:
        return at_first
    at_last = max(one.on_device.end_ns - last, at_first)
    if usual is None:
        return at_last if one.launch.overwrote_ctas else at_first
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
    row_of_launch = {
        "process": process,
        "launch": one.number,
        "kernel": one.kernel,
        "device": launch.device,
        "stream": launch.stream,
        "number": launch.number,
        "grid": min(launch.grid[0] * launch.grid[1] * launch.grid[2], (1 << 63) - 1),
        "ctas": len(ctas),
        "bad_ctas": ctas.bad,
        "start_ns": one.on_device.start_ns if one.on_device else 0,
        "end_ns": one.on_device.end_ns if one.on_device else 0,
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
    rows["intra_launches"].append(pl.DataFrame([row_of_launch], schema=dict(TABLES["intra_launches"])))


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
    columns_of_spans = one.spans.select("scope", "path", "depth", took_ns=pl.col("took") * ns, own_ns=pl.col("own") * ns)
    return columns_of_spans.with_columns(**{name: pl.Series(value) for name, value in columns.items()}, **key).select(
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
    rows = [
        (process, number, one.number, one.name, one.of_pass, one.kind, one.op, one.file, one.line, one.loop, one.phase, one.pair)
        for one in kernel.scopes
    ]
    return pl.DataFrame(rows, schema=dict(TABLES["intra_scopes"]), orient="row")


__all__ = ["MOST_SPANS", "IntraTables", "LaunchTimes", "tables"]
