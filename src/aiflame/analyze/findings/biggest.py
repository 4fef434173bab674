"""The biggest findings of a profile, a sentence each: costs that better code might avoid. There may be none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from aiflame.analyze.device.profile_analysis import ProfileAnalysis, profile_analysis
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings.cpu import OF_CODE, cpu_findings
from aiflame.analyze.findings.idle import communication, copies, idle, scope
from aiflame.analyze.findings.intra import inside
from aiflame.analyze.findings.kernels import hot_group, hot_stall
from aiflame.analyze.findings.ranks import rank_findings
from aiflame.analyze.findings.steps import slow_layers, slow_steps
from aiflame.analyze.overview.summary import Summary
from aiflame.analyze.ranks.comparison import Ranks
from aiflame.analyze.step_times import step_times
from aiflame.attribute.metrics import METRICS
from aiflame.attribute.tree import GPU_TIME
from aiflame.profile.tables.interface import Tables

__all__ = ["Evidence", "Finding", "findings"]


def findings(profile: Tables, summary: Summary, limit: int = 3, ranks: Callable[[], Ranks] | None = None) -> list[Finding]:
    """At most `limit`, those first that promise most. `ranks` gives the comparison of ranks; without it, ranks are left out."""
    analysis = profile_analysis(profile)
    own = _of_devices(analysis, summary) if analysis.ran_on_devices else _of_cpus(analysis)
    of_ranks = rank_findings(profile, ranks) if ranks is not None else ()
    ordered = sorted([*own, *of_ranks], key=lambda finding: (-finding.recoverable, finding.kind, finding.sentence))
    return _distinct(ordered)[:limit]


def _distinct(ordered: list[Finding]) -> list[Finding]:
    """Without findings about a kernel, or a line's work, that a bigger one is about."""
    kept: dict[str, Finding] = {}
    for finding in ordered:
        of_code = finding.view.place if finding.kind in OF_CODE else ""
        kept.setdefault(finding.view.kernel or of_code or finding.sentence, finding)
    return list(kept.values())


def _of_devices(analysis: ProfileAnalysis, summary: Summary) -> Iterator[Finding]:
    of = scope(summary.occupancy, analysis.per_step)
    yield from idle(analysis, analysis.gaps, of)
    yield from copies(analysis, of)
    yield from communication(analysis, of)
    yield from hot_group(analysis, of.share["busy"])
    yield from hot_stall(analysis, of.share["busy"])
    yield from inside(analysis, of.share["busy"])
    yield from slow_steps(step_times(analysis.steps, analysis.per_step), GPU_TIME.name)
    yield from slow_layers(analysis.steady_shared.select("layer", value="took"), GPU_TIME.name, GPU_TIME.label, of.share["busy"])


def _of_cpus(analysis: ProfileAnalysis) -> Iterator[Finding]:
    cpu = analysis.cpu
    if cpu is None:
        return
    samples = int(analysis.profile.scan("cpu_samples").select(pl.len()).collect().item())
    yield from cpu_findings(cpu, samples)
    yield from slow_steps(step_times(cpu.steps, analysis.per_step), cpu.metric)
    yield from slow_layers(cpu.rows.select("layer", "value"), cpu.metric, METRICS[cpu.metric].label, 1.0)
