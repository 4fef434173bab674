"""A finding about functions that are compiled again and again, in programs without a GPU; `gpu.host_calls` has it for those with one."""

from __future__ import annotations

from collections.abc import Iterator

from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.recompilations import recompiled, sentence
from aiflame.analyze.scope import whole_run_text
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.tree import CPU_TIME

LEAST_SHARE = 0.05
LEAST_NS = 1_000_000_000
"""As much as 100 samples of CPU time at the usual rate."""


def recompiling(profile: Analysis, duration_ns: int) -> Iterator[Finding]:
    """Compilations are timed, and count in the whole run, since steps that compile may count as warm-up. Dynamo compiles a function at most
    eight times, so there will be no more; JAX has no limit."""
    of = recompiled(profile)
    share = of.ns / max(duration_ns, 1) if of is not None else 0.0
    if of is None or of.ns < LEAST_NS or share < LEAST_SHARE:
        return
    view = Evidence("flame", CPU_TIME.name, "code", r"^cache_miss$" if of.traced else r"^_compile$", place=of.place)
    others = f", and into {of.functions - 1} other functions" if of.functions > 1 else ""
    much = f"{share:.0%} of {whole_run_text(profile)} goes into that{others}"
    yield Finding(f"{sentence(of)}: {much}", share, view, of.kind, share * 0.9, of_whole_run=True)
