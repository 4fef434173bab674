"""Reads the rows of a table that overlap a stretch of time, without the rest of the table."""

from __future__ import annotations

from functools import cached_property

import polars as pl

from aiflame.attribute.devices.work import JOIN
from aiflame.values import dataclass

AROUND_NS = 20_000_000
"""Rows within this distance of a stretch are read with it. Overlapping rows at its edge then get the same lanes as in the whole timeline,
if the device was idle for a moment in that margin."""
_NEIGHBOURS = 100_000
"""If numbers of launches are further apart than this, they are looked up one by one."""
_LAUNCH = [pl.col(name).cast(pl.UInt32) if name == "api" else pl.col(name) for name in JOIN]
"""JOIN, with the same types in every table."""


@dataclass(frozen=True)
class Rows:
    """The rows of a table, each with a place (the columns `keys`) and a time. Tables are read with `row`, the number of each row, beside
    their columns."""

    table: pl.LazyFrame
    keys: tuple[str, ...]
    begin: str
    end: str

    def many(self, begin: int, end: int) -> int:
        """The number of rows in a stretch of time."""
        count: int = self._touching(begin, end).select(pl.len()).collect().item()
        return count

    def near(self, begin: int, end: int) -> pl.DataFrame:
        """Rows in a stretch of time and close to it; and for each place the last row before it and the first one after it, since a context
        that both have continues between them."""
        rows = self._touching(begin - AROUND_NS, end + AROUND_NS).collect()
        at = pl.col(self.begin)
        there = rows.group_by(self.keys).agg(before=(at <= begin).any(), after=(at >= end).any())
        places = self._reach.join(there, on=self.keys, how="left")
        before = places.filter(~pl.col("before").fill_null(False), pl.col("first") <= begin)
        after = places.filter(~pl.col("after").fill_null(False), pl.col("last") >= end)
        ended, begun = pl.col("last") <= begin, pl.col("first") >= end
        edges = [
            *(self._at(before.filter(ended), "last"), self._at(after.filter(begun), "first")),
            *(self._edge(before.filter(~ended), at <= begin, at.max()), self._edge(after.filter(~begun), at >= end, at.min())),
        ]
        return both(rows, *edges)

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows that belong to the same launches as `rows` of another table."""
        keys = rows.lazy().select(_LAUNCH).unique().sort("process", "correlation")
        new = (pl.col("process").diff() != 0) | (pl.col("correlation").diff() > _NEIGHBOURS)
        wanted = keys.with_columns(group=new.fill_null(True).cum_sum()).collect()
        bounds = wanted.group_by("process", "group").agg(low=pl.col("correlation").min(), high=pl.col("correlation").max())
        groups = [
            self.table.filter(pl.col("process") == process, pl.col("correlation").is_between(low, high)).join(
                wanted.lazy(), left_on=_LAUNCH, right_on=JOIN, how="semi"
            )
            for process, _, low, high in bounds.rows()
        ]
        return both(self.table.clear().collect(), *pl.collect_all(groups))

    def _touching(self, begin: int, end: int) -> pl.LazyFrame:
        begin, end = max(begin, 0), max(end, 0)
        # A damaged end is before its begin.
        return self.table.filter((pl.col(self.end) > begin) | (pl.col(self.begin) > begin), pl.col(self.begin) < end)

    @cached_property
    def _reach(self) -> pl.DataFrame:
        """When the first and the last row at each place began."""
        return self.table.group_by(self.keys).agg(first=pl.col(self.begin).min(), last=pl.col(self.begin).max()).collect()

    def _edge(self, places: pl.DataFrame, beyond: pl.Expr, nearest: pl.Expr) -> pl.DataFrame:
        if places.is_empty():
            return places.clear()
        here = self.table.filter(beyond).join(places.lazy(), on=self.keys, how="semi")
        return self._at(here.group_by(self.keys).agg(nearest.alias("at")).collect(), "at")

    def _at(self, places: pl.DataFrame, moment: str) -> pl.DataFrame:
        """The rows that began at each place at its `moment`."""
        if places.is_empty():
            return places.clear()
        when = places[moment]
        near = self.table.filter(pl.col(self.begin).is_between(when.min(), when.max()))
        return near.join(places.lazy(), left_on=[*self.keys, self.begin], right_on=[*self.keys, moment], how="semi").collect()


def both(*tables: pl.DataFrame) -> pl.DataFrame:
    """The rows of all tables, each once, in the table's order."""
    return pl.concat([each for each in tables if len(each)] or [tables[0]]).unique("row").sort("row")
