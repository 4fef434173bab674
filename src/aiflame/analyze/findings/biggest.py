"""The biggest findings of a profile: costs that better code might avoid. There may be none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from aiflame.analyze.cpu_facts import CpuFacts
from aiflame.analyze.device.profile_analysis import ProfileAnalysis, profile_analysis
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings.cpu import OF_CODE, cpu_findings
from aiflame.analyze.findings.gpu.below_limit import far_kernel
from aiflame.analyze.findings.gpu.catalogue import EXPLAINS, IDLE_AT_LINE, OF_KERNELS, OF_LINES
from aiflame.analyze.findings.gpu.detectors import gpu_causes
from aiflame.analyze.findings.host_causes import host_causes
from aiflame.analyze.findings.idle import Scope, communication, copies, idle, scope
from aiflame.analyze.findings.intra import inside
from aiflame.analyze.findings.kernels import hot_group, hot_stall
from aiflame.analyze.findings.loops import busy_loops
from aiflame.analyze.findings.memory import memory_findings
from aiflame.analyze.findings.no_cache import no_cache
from aiflame.analyze.findings.processors import processor_findings
from aiflame.analyze.findings.ranks import rank_findings
from aiflame.analyze.findings.recompiling import recompiling
from aiflame.analyze.findings.steps import slow_layers, slow_steps
from aiflame.analyze.findings.waiting import waiting_findings
from aiflame.analyze.layer_groups import layer_classes
from aiflame.analyze.overview.summary import Summary
from aiflame.analyze.places import places
from aiflame.analyze.scheduling import others_have_cpus, ready_share
from aiflame.analyze.scoped_waiting import scoped_waiting
from aiflame.attribute.metrics import METRICS
from aiflame.attribute.tree import CPU_TIME, GPU_TIME
from aiflame.profile.tables.interface import Tables
from aiflame.values import replace

if TYPE_CHECKING:
    from aiflame.analyze.ranks.comparison import Ranks

__all__ = ["Evidence", "Finding", "findings"]


def findings(profile: Tables, summary: Summary, limit: int = 3, ranks: Callable[[], Ranks] | None = None) -> list[Finding]:
    """The most promising findings, at most `limit`. `ranks` gives the comparison of ranks; without it, ranks are left out."""
    analysis = profile_analysis(profile)
    own = _of_devices(analysis, summary) if analysis.ran_on_devices else _of_cpus(analysis, summary)
    of_ranks = rank_findings(profile, ranks) if ranks is not None else ()
    ordered = sorted(
        [*own, *of_ranks, *memory_findings(analysis.profile)], key=lambda finding: (-finding.recoverable, finding.kind, finding.sentence)
    )
    return _distinct(ordered)[:limit]


def _distinct(ordered: list[Finding]) -> list[Finding]:
    """Removes findings about a kernel, or the work of a line, that a bigger finding is about already."""
    kept: dict[str, Finding] = {}
    for finding in ordered:
        of_code = finding.view.place if finding.kind in OF_CODE else ""
        kept.setdefault(finding.view.kernel or of_code or finding.sentence, finding)
    return list(kept.values())


def _of_devices(analysis: ProfileAnalysis, summary: Summary) -> Iterator[Finding]:
    of = scope(summary.occupancy, analysis)
    yield from no_cache(summary.scope.inference, GPU_TIME.name, summary.scope.took_ns)
    yield from _explained(gpu_causes(analysis, of), list(_of_devices_without_cause(analysis, of)))


def _of_devices_without_cause(analysis: ProfileAnalysis, of: Scope) -> Iterator[Finding]:
    yield from idle(analysis, analysis.gaps, of)
    yield from copies(analysis, of)
    yield from communication(analysis, of)
    yield from hot_group(analysis, of.share["busy"])
    yield from hot_stall(analysis, of.share["busy"])
    yield from inside(analysis, of.share["busy"])
    yield from far_kernel(analysis, of)
    yield from slow_steps(analysis.usual_steps(analysis.steps), GPU_TIME.name)
    parts = analysis.scoped_shared.select("layer", value="took")
    yield from slow_layers(parts, layer_classes(analysis.profile, parts["layer"]), GPU_TIME.name, GPU_TIME.label, of.share["busy"])


def _explained(causes: Iterable[Finding], others: Sequence[Finding]) -> Iterator[Finding]:
    """The causes, which replace other findings about the same thing, and the remaining findings."""
    replaced = []
    for cause in causes:
        same = [one for one in others if _explains(cause, one)]
        replaced += same
        yield replace(cause, recoverable=max([cause.recoverable, *(one.recoverable for one in same)]))
    yield from (one for one in others if one not in replaced)


def _explains(cause: Finding, other: Finding) -> bool:
    if other.kind in EXPLAINS.get(cause.kind, ()):
        return True
    if cause.kind in OF_KERNELS:
        return other.kind in ("hot-group", "hot-stall", "far-from-limit") and other.view.kernel == cause.view.kernel
    at_same_line = other.view.place == cause.view.place != ""
    return other.kind in IDLE_AT_LINE and cause.kind in OF_LINES and at_same_line


def _of_cpus(analysis: ProfileAnalysis, summary: Summary) -> Iterator[Finding]:
    """Waits first, which are parts of elapsed time; then CPU time, as a part of the time in which the program ran, or would have run if it
    had had a CPU: with less work it would wait less for a CPU."""
    waits = scoped_waiting(analysis.profile)
    if waits is not None:
        yield from waiting_findings(waits)
    yield from busy_loops(analysis.profile)
    yield from no_cache(summary.scope.inference, CPU_TIME.name, summary.scope.took_ns)
    yield from recompiling(analysis.profile, summary.duration_ns)
    yield from processor_findings(analysis.profile, analysis.cpu)
    whole, cpu = analysis.cpu, analysis.scoped_cpu
    if whole is None or cpu is None:
        return
    part = 1.0
    if whole.metric == CPU_TIME.name and summary.duration_ns:
        part = min(whole.total / summary.duration_ns + ready_share(analysis.profile), 1.0)
    for finding in _of_running(analysis, cpu):
        yield replace(finding, recoverable=finding.recoverable * part)


def _of_running(analysis: ProfileAnalysis, cpu: CpuFacts) -> Iterator[Finding]:
    causes, unexplained = host_causes(analysis.profile, cpu, cpu.samples)
    yield from causes
    crowded = others_have_cpus(analysis.profile)
    yield from cpu_findings(cpu, places(analysis.profile), unexplained, cpu.samples, crowded=crowded)
    yield from slow_steps(analysis.usual_steps(cpu.steps), cpu.metric)
    parts = cpu.rows.select("layer", "value")
    yield from slow_layers(parts, layer_classes(analysis.profile, parts["layer"]), cpu.metric, METRICS[cpu.metric].label, 1.0)
