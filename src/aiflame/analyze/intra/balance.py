"""How evenly the work of a kernel is divided over CTAs and multiprocessors, and how long its tail is."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.analyze.intra.data import Inside
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Balance:
    """Means over the launches whose CTAs were all recorded."""

    launches: int
    ctas: int
    """The number of CTAs in a launch."""
    sms: int
    at_once: float
    """CTAs that run at the same time on a multiprocessor."""
    waves: float
    """How many times that number fits into the launch."""
    cta_median_ns: float
    cta_p95_ns: float
    cta_most_ns: float
    slowest_sm: int
    """The multiprocessor whose CTAs take longest."""
    slowest_ratio: float
    """The time of its CTAs, relative to the median multiprocessor."""
    idle: float
    """The share of the launch's time in which multiprocessors have no CTA: at its begin, its end and in between."""
    tail: float
    """The share of the launch's time in which multiprocessors have no work left."""


def balance(inside: Inside) -> Balance | None:
    """None if no launch was recorded completely."""
    whole = inside.kept.filter((pl.col("ctas") == pl.col("grid")) & (pl.col("bad_ctas") == 0))
    ctas = inside.ctas.join(whole.select("launch"), on="launch", how="semi").filter(pl.col("end_ns") > pl.col("begin_ns"))
    if ctas.is_empty():
        return None
    ctas = ctas.with_columns(took=pl.col("end_ns") - pl.col("begin_ns"))
    sms = ctas["sm"].n_unique()
    of_launch = ctas.group_by("launch").agg(
        pl.len(), begin=pl.col("begin_ns").min(), end=pl.col("end_ns").max(), took=pl.col("took").sum()
    )  # fmt: skip
    of_sm = ctas.sort("begin_ns").group_by("launch", "sm").agg(
        last=pl.col("end_ns").max(), busy=_covered(), took=pl.col("took").sum()
    ).join(of_launch.select("launch", "begin", "end"), on="launch")  # fmt: skip
    wall = float((of_launch["end"] - of_launch["begin"]).sum()) * sms
    unused = (sms * len(of_launch) - len(of_sm)) / len(of_launch)  # multiprocessors without a CTA of that launch
    missing = unused * float((of_launch["end"] - of_launch["begin"]).sum())
    tail = float((of_sm["end"] - of_sm["last"]).sum()) + missing
    busy = float(of_sm["busy"].sum())
    each = ctas.group_by("sm").agg(pl.col("took").mean()).sort("took", "sm")
    median = float(np.median(each["took"].to_numpy()))
    at_once = float(of_sm["took"].sum()) / max(busy, 1.0)
    count = float(of_launch["len"].mean() or 0)  # type: ignore[arg-type]
    took = ctas["took"].to_numpy()
    return Balance(
        len(of_launch),
        round(count),
        sms,
        at_once,
        count / max(sms * round(at_once), 1),
        float(np.median(took)),
        float(np.percentile(took, 95)),
        float(took.max()),
        int(each["sm"][-1]),
        float(each["took"][-1]) / max(median, 1.0),
        max(1 - busy / max(wall, 1.0), 0.0),
        tail / max(wall, 1.0),
    )


def _covered() -> pl.Expr:
    """The time in which any CTA runs; rows are sorted by begin."""
    reached = pl.col("end_ns").cum_max().shift(1).fill_null(pl.col("begin_ns"))
    return (pl.col("end_ns") - pl.max_horizontal("begin_ns", reached)).clip(lower_bound=0).sum()
