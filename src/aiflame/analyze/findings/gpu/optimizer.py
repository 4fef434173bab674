"""An optimizer that launches separate kernels for each parameter."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.analyze.amounts import amount
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings.gpu.catalogue import FEW_RECORDS, least
from aiflame.analyze.findings.gpu.facts import Facts, at
from aiflame.analyze.places import place_text
from aiflame.attribute.meaning.phases import NAMES, Phase
from aiflame.attribute.tree import GPU_TIME
from aiflame.profile.schema.kinds import Kind

MANY = 50
"""Kernels in a step: a foreach optimizer launches about ten for each group of parameters."""
ALREADY = r"multi_tensor_apply|(?i:fused)|^triton_"
SOME = 0.2
"""A share of the optimizer's kernels that update many parameters each."""
GAIN = 0.7


def unfused_optimizer(facts: Facts) -> Iterator[Finding]:
    if not facts.scope.in_steps:
        return
    analysis = facts.analysis
    executions = analysis.work.executions.with_columns(inside=pl.Series(facts.inside))
    sites = analysis.sites.with_row_index("site").filter(
        (pl.col("phase") == NAMES[Phase.OPTIMIZER]) & (pl.col("kind") == int(Kind.GPU_KERNEL))
    )
    kernels = executions.filter("inside").join(sites.select(pl.col("site").cast(pl.UInt32), "process", "name", "file", "line"), on="site")
    if kernels.is_empty():
        return
    per_step = kernels.group_by("process", "step").agg(pl.len(), pl.col("start_ns").min(), pl.col("end_ns").max())
    together = kernels["name"].str.contains(ALREADY).sum() / len(kernels)
    each = len(kernels) / facts.scope.steps
    took = int((per_step["end_ns"] - per_step["start_ns"]).sum())
    share = facts.share(took)
    if len(kernels) < FEW_RECORDS or each < MANY or together > SOME or share < least("unfused-optimizer"):
        return
    lines = kernels.filter(pl.col("file") != "").group_by("file", "line").len().sort("len", "file", "line", descending=[True, False, False])
    place = place_text(lines["file"][0], lines["line"][0]) if len(lines) else ""
    mean = amount(round(int((kernels["end_ns"] - kernels["start_ns"]).sum()) / len(kernels)), "ns")
    sentence = (
        f"The optimizer takes {facts.took(took)}: it launches {each:,.0f} kernels of {mean} a step, each for one parameter{at(place)}"
    )
    view = Evidence("flame", GPU_TIME.name, "phase", f"^{NAMES[Phase.OPTIMIZER]}$", place=place)
    yield Finding(sentence, share, view, "unfused-optimizer", share * GAIN)
