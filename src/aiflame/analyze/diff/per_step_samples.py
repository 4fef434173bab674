"""The number of samples of warps in each step. A sample has a kernel and a window, but no launch: the samples of a window are divided over
the launches in it, and so over its steps. Steps that share a window are similar for that reason, which does not show how much steps vary:
for the noise, all steps of a window count as one."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.step_times import steady, step_times
from aiflame.attribute.devices.samples import samples
from aiflame.attribute.devices.work import Work
from aiflame.attribute.sites.times import window_length
from aiflame.attribute.tree import GPU_LATENCY


def site_samples(analysis: ProfileAnalysis, metric: str) -> pl.DataFrame:
    """site, process, step (-1: none), reason, value"""
    site, step = (analysis.work.executions[name].to_numpy().astype(np.int64) for name in ("site", "step"))
    width = int(step.max(initial=-1)) + 2
    pair, of_pair = np.unique(site * width + step + 1, return_inverse=True)
    in_steps = Work(analysis.work.sites[pair // width], analysis.work.executions.with_columns(site=pl.Series(of_pair.astype(np.uint32))))
    sampled = samples(analysis.profile, in_steps, not_issued=metric == GPU_LATENCY.name, offsets=False)
    at = pair[sampled.placed["site"].to_numpy()]
    return (
        pl.DataFrame({"site": at // width, "step": at % width - 1, "value": sampled.placed["value"].cast(pl.Int64)})
        .with_columns(
            reason=sampled.points["reason"].gather(sampled.placed["point"]),
            process=analysis.sites["process"].gather(at // width),
        )
        .group_by("site", "process", "step", "reason")
        .agg(pl.col("value").sum())
    )


def steps_a_window(analysis: ProfileAnalysis) -> int:
    """The number of consecutive steps that last as long as a sampling window; at least 1."""
    usual = steady(step_times(analysis.steps, analysis.per_step))["took"].median()
    return max(1, int(np.ceil(window_length(analysis.profile) / float(usual)))) if isinstance(usual, float) and usual > 0 else 1


def averaged(steps: NDArray[np.float64], process: NDArray[np.int64], together: int) -> NDArray[np.float64]:
    """The means of `together` neighbouring columns within each process (sorted)."""
    if together <= 1 or not steps.shape[1]:
        return steps
    _, first, count = np.unique(process, return_index=True, return_counts=True)
    place = np.arange(len(process)) - np.repeat(first, count)
    blocks = np.maximum(count // together, 1)
    block = np.repeat(np.cumsum(blocks) - blocks, count) + place * np.repeat(blocks, count) // np.repeat(count, count)
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    means: NDArray[np.float64] = np.add.reduceat(steps, starts, axis=1) / np.bincount(block)
    return means
