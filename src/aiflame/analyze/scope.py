"""The scope of a profile: the time that its first screen, its tables, its findings and `top` cover.

It is the profile's steady steps, if it has some. Warm-up, start-up and everything else outside of them are left out, with a line that says
so (`overview.scope_line`). Without steady steps, or if the user asks for it, it is the whole run.
"""

from __future__ import annotations

import polars as pl

from aiflame.attribute.analysis import Analysis, once
from aiflame.attribute.devices.work import work
from aiflame.attribute.meaning.context import of_samples, profile_steps
from aiflame.attribute.meaning.steady import Steady, in_steps, steady, steady_by
from aiflame.attribute.metrics import CLOCK
from aiflame.attribute.prefixes import BY_CODE_AND_MEANING, STEADY, in_steady_steps
from aiflame.attribute.trees.build import default_metric
from aiflame.attribute.trees.how_to_record import is_empty
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables

FEW_SAMPLES = 50
"""Smallest number of samples in steady steps of a program without a device: fewer show nothing about the steps."""


def analysis_of(profile: Tables, *, whole_run: bool) -> Analysis:
    """An analysis of the profile; `whole_run`: its scope is the whole run."""
    analysis = Analysis(profile)
    if whole_run:
        analysis.keep(asked_for_all, True)
    return analysis


@once
def asked_for_all(profile: Analysis) -> bool:
    """True if the user asked for the whole run."""
    return False


@once
def steady_scope(profile: Analysis) -> Steady | None:
    """The steps in its scope; None: the scope is the whole run."""
    return steady_steps(profile) if has_steady_steps(profile) and not asked_for_all(profile) else None


def whole_run_text(profile: Analysis) -> str:
    """The words for all the time, in sentences about a share of the whole run."""
    return "the time" if steady_scope(profile) is None else "the whole run"


@once
def has_steady_steps(profile: Analysis) -> bool:
    """True if it has steps that may be its scope: then the user may choose between them and the whole run."""
    return bool(steady_steps(profile).first) and not too_short(profile)


@once
def steady_steps(profile: Analysis) -> Steady:
    """The steady steps, judged by their duration on devices, or on hosts if they used none."""
    rows = profile_steps(profile).rows
    if not len(rows) or is_empty(profile, "kernels"):
        return steady(profile)
    executed = work(profile, BY_CODE_AND_MEANING)
    on_devices = (
        executed.executions.lazy()
        .select(pl.col("site", "step", "start_ns", "end_ns").cast(pl.Int64))
        .filter(pl.col("step") >= 0)
        .join(executed.sites.lazy().select(pl.col("process").cast(pl.Int64)).with_row_index("site").cast(pl.Int64), on="site")
        .group_by("process", "step")
        .agg(took=pl.col("end_ns").max() - pl.col("start_ns").min())
        .collect()
    )
    on_hosts = rows.select("process", "step", took=pl.col("end_ns") - pl.col("begin_ns"))
    steps = steady_by(rows, pl.concat([on_devices, on_hosts.join(on_devices, on="process", how="anti")]))
    profile.keep(steady, steps)
    return steps


@once
def too_short(profile: Analysis) -> bool:
    """True for a program without devices that has too few samples in its steady steps."""
    steady_steps(profile)
    clock = CLOCK.get(default_metric(profile))
    if clock is None:
        return False
    return int(in_steps(profile, of_samples(profile, clock).samples)["steady"].sum()) < FEW_SAMPLES


def kernels_in_steps(profile: Analysis) -> pl.DataFrame | None:
    """name, launches, time of kernels in the steps of the scope; None if the scope is the whole run."""
    if steady_scope(profile) is None:
        return None
    sites = work(profile, in_steady_steps(None)).sites.filter(pl.col(STEADY) == 1, pl.col("kind") == int(Kind.GPU_KERNEL))
    return sites.group_by("name").agg(pl.col("launches").sum(), time=pl.col("took").sum())


def in_scope(profile: Tables, steps: pl.DataFrame) -> pl.DataFrame:
    """Those of these steps (process, step, …) that are in the scope; none if the scope is the whole run."""
    scope = steady_scope(Analysis.of(profile))
    first = scope.first if scope is not None else {}
    least = pl.col("process").replace_strict(first, default=None, return_dtype=pl.Int64)
    return steps.filter(pl.col("step") >= least)
