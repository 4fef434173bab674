"""Functions and lines that took CPU time, or wall-clock time, as tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.scope import steady_scope
from aiflame.analyze.tables.table import TableOf, number, place, share, table_of, text
from aiflame.analyze.top import top
from aiflame.attribute.metrics import CALL_LINE, CLOCK
from aiflame.attribute.sites.cpu import OWN_DOMAIN
from aiflame.attribute.stacks.own_metrics import metric_rows, own_metrics
from aiflame.attribute.transforms.noise import hide_interpreter_noise
from aiflame.attribute.trees.build import metrics, tree
from aiflame.profile.schema.kinds import Kind

MOST_ROWS = 2000
"""The rest of a list of functions is noise: one sample each."""
MOST_OWN = 8
"""Own metrics of a profile that have tables; the flame graph has all."""


def code_tables(analysis: ProfileAnalysis) -> Iterator[TableOf]:
    """For each clock that was sampled, and for each of the profile's own metrics, its functions and lines, as in the flame graph of that
    metric."""
    steady = steady_scope(analysis.profile) is not None
    there, own, rows_of = metrics(analysis.profile), [*own_metrics(analysis.profile)], metric_rows(analysis.profile)
    of_threads = [name for name in (*CLOCK, *own[:MOST_OWN]) if name in there]
    for clock in of_threads:
        label, unit = rows_of[clock].metric.label, rows_of[clock].metric.unit
        shown = hide_interpreter_noise(tree(analysis.profile, clock, detail=CALL_LINE, steady=steady))
        suffix = "" if clock == of_threads[0] else f"-{OWN_DOMAIN}{own.index(clock)}" if clock in own else f"-{clock}"
        for by, title in (("function", "Functions"), ("line", "Lines")):
            if by == "line" and not np.isin(shown.kinds(), (Kind.CPU_LINE, Kind.GPU_LINE)).any():
                continue
            columns = (
                text("name", title[:-1]),
                number("self", label, unit),
                share("self_share", f"% of {label}"),
                number("total", "With callees", unit),
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
