"""Findings about the inside of kernels with records from inside."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.layer_groups import escaped
from aiflame.attribute.tree import GPU_TIME

LEAST = 0.05
"""Smallest share of GPU time: a kernel with less is not reported."""


def inside(analysis: ProfileAnalysis, busy: float) -> Iterator[Finding]:
    """The most promising finding of each kernel, scaled by its share of GPU time; `busy`: the share of the time in which kernels ran."""
    if not analysis.profile.has("intra_kernels") or not analysis.profile.table("intra_launches")["records"].sum():
        return
    from aiflame.analyze.intra.kernels import intra  # few profiles have records from inside kernels

    sites = analysis.scoped_sites.select("process", "name", "took")
    whole = max(int(sites["took"].sum()), 1)
    for kernel in intra(analysis.profile):
        mine = sites.filter((pl.col("process") == kernel.process) & (pl.col("name") == kernel.name))
        share = int(mine["took"].sum()) / whole
        best = next((one for one in kernel.findings if one.recoverable > 0), None)
        if best is None or share < LEAST:
            continue
        sentence = f"{kernel.short} takes {share:.0%} of GPU time; inside, {best.sentence}"
        view = Evidence("flame", GPU_TIME.name, "code", f"^{escaped(kernel.short)}$", kernel=kernel.name, place=best.place)
        yield Finding(sentence, share, view, f"inside-{best.kind}", share * busy * best.recoverable)
