"""The remedy for waiting for launches, which depends on whether the program is compiled already."""

from __future__ import annotations

import re

import polars as pl

from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.profile.schema.kinds import Kind

MOST = 0.5
SOME = 0.2
"""A share of launches."""
_INDUCTOR = re.compile(r"^triton_\w*fused").pattern


def launch_bound(analysis: ProfileAnalysis) -> str:
    """The kind of finding: if the program's kernels come from a graph, only larger kernels help; if it is compiled, or does not use torch,
    graphs help; otherwise compiling."""
    sites = analysis.scoped_sites.select("name", "kind", "op", "launches", graph=analysis.work.sites["graph"])
    sites = sites.filter(pl.col("kind") == int(Kind.GPU_KERNEL))
    whole = max(int(sites["launches"].sum()), 1)

    def part(of: pl.Expr) -> float:
        return int(sites.filter(of)["launches"].sum()) / whole

    if part(pl.col("graph")) >= MOST:
        return "launch-bound-batch"
    if part(pl.col("name").str.contains(_INDUCTOR)) >= SOME or part(pl.col("op") != "") < SOME:
        return "launch-bound-graph"
    return "launch-bound"
