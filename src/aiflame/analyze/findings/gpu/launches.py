"""The remedy for waits for launches: it depends on the steps that the program has taken already."""

from __future__ import annotations

import re

import polars as pl

from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.profile.schema.kinds import Kind

MOST = 0.5
SOME = 0.2
"""Of launches."""
_INDUCTOR = re.compile(r"^triton_\w*fused").pattern


def launch_bound(analysis: ProfileAnalysis) -> str:
    """The kind of the finding: a program whose kernels come from a graph has nothing left but larger kernels; one that is compiled, or is
    not torch's, has graphs; any other is compiled first."""
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
