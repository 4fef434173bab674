"""The time that warps spend at the waits of a kernel: the first time, when a pipeline fills, and later times."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.intra.data import Inside
from aiflame.analyze.intra.kinds import is_about_math, is_arrival
from aiflame.analyze.intra.roles import role_of_warps
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Bubble:
    """A wait of a pipeline, and the time that a warp spends in it."""

    name: str
    place: str
    count: int
    share: float
    """Share of the time of the warps that run it."""
    fill_ns: float
    """The median of each warp's first wait."""
    steady_ns: float
    """The mean of all later waits."""
    p95_ns: float
    role: str = ""
    """The role that waits, in a kernel with roles."""
    of: str = "others"
    """The awaited work: math, loads, or work of others (copies, barriers)."""


def bubbles(inside: Inside) -> list[Bubble]:
    """The waits, sorted by the time that warps spend in them, the longest first."""
    rows = inside.scopes.filter(pl.col("kind").is_in(["wait", "barrier"]))
    warps = inside.warps.select("launch", "cta", "warp", "covered_ns")
    roles = role_of_warps(inside)
    waits = []
    for row in rows.iter_rows(named=True):
        spans = inside.spans.filter(pl.col("scope") == row["scope"]).sort("launch", "cta", "warp", "begin_ns")
        if spans.is_empty():
            continue
        key = ["launch", "cta", "warp"]
        of_warp = spans.group_by(key, maintain_order=True).agg(first=pl.col("took_ns").first(), all=pl.col("took_ns").sum())
        covered = float(of_warp.join(warps, on=key, how="left")["covered_ns"].sum() or 0)
        later = spans.filter(pl.int_range(pl.len()).over(key) > 0)["took_ns"]
        steady = later if len(later) else spans["took_ns"]
        waits.append(
            Bubble(
                row["name"],
                f"{row['file']}:{row['line']}" if row["line"] else row["file"],
                len(spans),
                float(of_warp["all"].cast(pl.Float64).sum()) / max(covered, 1.0),
                float(of_warp["first"].median() or 0),  # type: ignore[arg-type]
                float(steady.mean() or 0),  # type: ignore[arg-type]
                float(steady.quantile(0.95) or 0),
                roles.get(int(spans["warp"][0]), ""),
                "math" if is_about_math(row) else "loads" if is_arrival(row) else "others",
            )
        )
    return sorted(waits, key=lambda one: (-one.share, one.name))
