"""The calls that launched work, each inside the frames of the op that it was launched for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Whole
from aiflame.exchange.readers.devices.trace import CALLS, CHAINS, DeviceTrace, shaped
from aiflame.exchange.readers.spans import Spans
from aiflame.exchange.readers.xla.ops import OpNames
from aiflame.exchange.readers.xla.space import Plane
from aiflame.values import dataclass

_PATH = "path"
"""While a trace is read, its calls and work have the path of their op, as `OpNames` numbers it."""


def with_path(rows: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    return shaped(rows, {**schema, _PATH: pl.Int64()})


@dataclass(frozen=True, slots=True)
class Launched:
    """Ops of launching calls, by the work that they launched."""

    correlation: Whole
    """Sorted; those whose work belongs to one op."""
    path: Whole

    @staticmethod
    def by(trace: DeviceTrace) -> Launched:
        rows = (
            _work(trace)
            .filter(pl.col("correlation") > 0)
            .group_by("correlation")
            .agg(pl.col(_PATH).first(), kinds=pl.col(_PATH).n_unique())
        )
        single = rows.filter(pl.col("kinds") == 1, pl.col(_PATH) > 0).sort("correlation")
        return Launched(single["correlation"].to_numpy(), single[_PATH].to_numpy())

    def of_calls(self, plane: Plane, path: Whole) -> Whole:
        """The paths of a plane's events, those that the events do not name by the work that they launched."""
        correlation = plane.numbers("correlation_id")
        place = np.minimum(np.searchsorted(self.correlation, correlation), max(len(self.correlation) - 1, 0))
        same = np.append(self.correlation, -1)[place] == correlation if len(self.correlation) else np.zeros(len(path), dtype=np.bool_)
        return np.where((path == 0) & same, np.append(self.path, 0)[place], path)


def _work(trace: DeviceTrace) -> pl.DataFrame:
    return pl.concat([rows.select("correlation", _PATH, "device", "begin") for rows in (trace.kernels, trace.copies)])


def add_ops_of_work(trace: DeviceTrace, ops: OpNames, threads: dict[int, int], pid: int) -> int:
    """Work that belongs to another op than its launching call gets a call of its own, without a duration, below the callers of that call.
    Gives the number of ops whose launching calls are not in the trace: they begin with their work, on the thread of the device in
    `threads`. The column `path` goes."""
    work = _work(trace).filter(pl.col(_PATH) > 0)
    key = ["correlation", _PATH, "device"]
    launching = (
        trace.calls.with_row_index("row")
        .filter(pl.col("correlation") > 0)
        .unique("correlation", keep="first", maintain_order=True)
        .select("correlation", "row", "tid", call_begin="begin", call_path=_PATH)
    )
    other = (
        work.unique(key, keep="first", maintain_order=True)
        .join(launching, on="correlation", how="left", maintain_order="left")
        .filter(pl.col(_PATH).ne_missing(pl.col("call_path")))
    )
    fresh = int(pl.concat([trace.calls["correlation"], work["correlation"]]).max() or 0) + 1  # type: ignore[arg-type]
    other = other.with_columns(fresh=pl.int_range(fresh, fresh + pl.len()))
    callers = _Callers(trace, pid)
    chains = [callers.chain(row, ops.paths[path]) for row, path in other.select("row", _PATH).iter_rows()]
    began = pl.coalesce("call_begin", "begin")
    own_calls = other.select(
        pid=pl.lit(pid),
        tid=pl.coalesce("tid", pl.col("device").replace_strict(threads, default=0, return_dtype=pl.Int64)),
        begin=began,
        end=began,
        frame=pl.Series([ops.paths[path][-1] for path in other[_PATH].to_list()], dtype=pl.Int64),
        correlation="fresh",
        chain=pl.Series(chains, dtype=pl.Int64),
    )
    trace.calls = pl.concat([trace.calls.drop(_PATH), shaped(own_calls, CALLS)])
    trace.chains = shaped(pl.DataFrame(callers.chains, schema=CHAINS, orient="row"), CHAINS)
    for name in ("kernels", "copies"):
        rows = getattr(trace, name).join(other.select(*key, "fresh"), on=key, how="left", maintain_order="left")
        setattr(trace, name, rows.with_columns(correlation=pl.coalesce("fresh", "correlation")).drop(_PATH, "fresh"))
    return int(other["row"].null_count())


class _Callers:
    """Chains of frames: the callers of a call, as they are asked for, and ops below them."""

    def __init__(self, trace: DeviceTrace, pid: int) -> None:
        self._calls, self._pid = trace.calls, pid
        self._nested: tuple[Whole, Whole, Whole] | None = None
        self._chain_of: dict[int, int] = {}
        self.chains: list[tuple[int, int, int]] = []

    def chain(self, row: int | None, path: list[int]) -> int:
        """The callers of a call, then the frames of an op but the last; -1: none."""
        above = -1 if row is None else self._callers(row)
        for frame in path[:-1]:
            above = self._add(above, frame)
        return above

    def _callers(self, row: int) -> int:
        place, parent, frame = self._nested = self._nested or self._nest()
        inner = []
        at = int(parent[place[row]])
        while at >= 0 and at not in self._chain_of:
            inner.append(at)
            at = int(parent[at])
        above = self._chain_of[at] if at >= 0 else -1
        for one in reversed(inner):
            above = self._chain_of[one] = self._add(above, int(frame[one]))
        return above

    def _nest(self) -> tuple[Whole, Whole, Whole]:
        """The place of each call in the order of spans; parent and frame of each span."""
        thread = self._calls["tid"].rank("dense").to_numpy().astype(np.int64)
        begin, end, frame = (self._calls[name].to_numpy() for name in ("begin", "end", "frame"))
        spans, order = Spans.of(np.zeros(len(thread), dtype=np.int64), thread, begin, end, frame)
        place = np.empty(len(thread), dtype=np.int64)
        place[order] = np.arange(len(thread))
        return place, spans.parent, spans.frame

    def _add(self, above: int, frame: int) -> int:
        self.chains.append((self._pid, above, frame))
        return len(self.chains) - 1
