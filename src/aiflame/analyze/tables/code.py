"""Functions and lines that took CPU time, or wall-clock time, as tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.scope import steady_scope
from aiflame.analyze.tables.table import TableOf, number, place, share, table_of, text
from aiflame.analyze.top import top
from aiflame.attribute.metrics import CALL_LINE, CLOCK, METRICS
from aiflame.attribute.transforms.noise import hide_interpreter_noise
from aiflame.attribute.trees.build import metrics, tree
from aiflame.profile.schema.kinds import Kind

MOST_ROWS = 2000
"""More rows of a list of functions are noise, with a sample each."""


def code_tables(analysis: ProfileAnalysis) -> Iterator[TableOf]:
    """For each clock that was sampled, its functions and lines, as in the flame graph of that metric."""
    steady = steady_scope(analysis.profile) is not None
    clocks = [name for name in metrics(analysis.profile) if name in CLOCK]
    for clock in clocks:
        label = METRICS[clock].label
        shown = hide_interpreter_noise(tree(analysis.profile, clock, detail=CALL_LINE, steady=steady))
        suffix = "" if clock == clocks[0] else f"-{clock}"
        for by, title in (("function", "Functions"), ("line", "Lines")):
            if by == "line" and not np.isin(shown.kinds(), (Kind.CPU_LINE, Kind.GPU_LINE)).any():
                continue
            columns = (
                text("name", title[:-1]),
                number("self", label, "ns"),
                share("self_share", f"% of {label}"),
                number("total", "With callees", "ns"),
                share("total_share", "% with callees"),
                place("place", "Where"),
                text("module", "Library"),
            )
            rows = (
                top(shown, by, clock)
                .head(MOST_ROWS)
                .with_columns(
                    place=pl.when(pl.col("file") != "").then(pl.format("{}:{}", "file", "line")).otherwise(pl.lit("")),
                    self_share=pl.col("self_percent") / 100,
                    total_share=pl.col("total_percent") / 100,
                )
            )
            yield table_of(f"{by}s{suffix}", f"{title}: {label}", columns, rows)
