"""How long a kernel's scopes take: as a share of all warps' time, for each run, and how evenly over warps, CTAs and multiprocessors."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.analyze.intra.data import Inside
from aiflame.analyze.places import place_text
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The time of a scope in each warp (CTA, multiprocessor) that runs it."""

    count: int
    median_ns: float
    most_ns: float
    most: int
    """The number of the warp (CTA, multiprocessor) with the largest time."""

    @property
    def ratio(self) -> float:
        return self.most_ns / self.median_ns if self.median_ns > 0 else 1.0


@dataclass(frozen=True, slots=True)
class ScopeTime:
    path: int
    parent: int
    """0: outermost"""
    depth: int
    name: str
    kind: str
    phase: str
    place: str
    beside: bool
    """It continues while the warp does other things."""
    count: int
    """How often it ran, in all launches."""
    share: float
    """Its share of the warps' time that records cover."""
    own_share: float
    """The same without inner scopes."""
    mean_ns: float
    median_ns: float
    """Of one run; over several launches, the mean of their medians, weighted by how often it ran."""
    p95_ns: float
    most_ns: float
    by_warp: Spread | None
    by_cta: Spread | None
    by_sm: Spread | None


def scope_times(inside: Inside) -> list[ScopeTime]:
    """The outermost scopes, each followed by the scopes inside; those that take longest come first."""
    whole = max(float(inside.launches["warp_ns"].sum()), 1.0)
    weighed = [(pl.col(name) * pl.col("count")).sum().alias(name) for name in ("median_ns", "p95_ns")]
    summed = inside.times.group_by("path").agg(pl.col("count").sum(), pl.col("took_ns", "own_ns").sum(), *weighed, pl.col("most_ns").max())
    rows = inside.paths.join(summed, on="path").join(inside.scopes, on="scope", how="left", suffix="_of_scope").sort("path")
    spreads = _spreads(inside)
    depth: dict[int, int] = {0: -1}
    by_parent: dict[int, list[ScopeTime]] = {}
    for row in rows.iter_rows(named=True):
        depth[row["path"]] = depth.get(row["parent"], -1) + 1
        count = max(row["count"], 1)
        one = ScopeTime(
            path=row["path"],
            parent=row["parent"],
            depth=depth[row["path"]],
            name=row["name"] or f"scope {row['scope']}",
            kind=row["kind"] or "user",
            phase=row["phase"] or "span",
            place=place_text(row["file"] or "", row["line"] or 0),
            beside=row["beside"],
            count=row["count"],
            share=row["took_ns"] / whole,
            own_share=row["own_ns"] / whole,
            mean_ns=row["took_ns"] / count,
            median_ns=row["median_ns"] / count,
            p95_ns=row["p95_ns"] / count,
            most_ns=row["most_ns"],
            by_warp=spreads["warp"].get(row["path"]),
            by_cta=spreads["cta"].get(row["path"]),
            by_sm=spreads["sm"].get(row["path"]),
        )
        by_parent.setdefault(row["parent"], []).append(one)
    return _in_order(by_parent)


def _in_order(by_parent: dict[int, list[ScopeTime]]) -> list[ScopeTime]:
    ordered: list[ScopeTime] = []
    waiting = sorted(by_parent.get(0, []), key=lambda one: (one.beside, -one.share, one.path), reverse=True)
    while waiting:
        one = waiting.pop()
        ordered.append(one)
        waiting += sorted(by_parent.get(one.path, []), key=lambda each: (-each.share, each.path), reverse=True)
    return ordered


def _spreads(inside: Inside) -> dict[str, dict[int, Spread]]:
    """The spread over warps, CTAs and multiprocessors for each path, each as the mean over the other two."""
    sms = inside.ctas.select("launch", "cta", "sm")
    each = inside.spans.group_by("path", "launch", "cta", "warp").agg(pl.col("took_ns").cast(pl.Float64).sum())
    each = each.join(sms, on=["launch", "cta"], how="left")
    return {name: _spread(each, name) for name in ("warp", "cta", "sm")}


def _spread(each: pl.DataFrame, name: str) -> dict[int, Spread]:
    of = each.group_by("path", name).agg(took=pl.col("took_ns").mean()).sort("path", "took", name)
    spreads: dict[int, Spread] = {}
    for (path,), rows in of.partition_by("path", as_dict=True, maintain_order=True).items():
        took = rows["took"].to_numpy()
        spreads[int(str(path))] = Spread(len(rows), float(np.median(took)), float(took[-1]), int(rows[name][-1] or 0))
    return spreads
