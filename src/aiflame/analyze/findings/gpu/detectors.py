"""All causes between the host and a GPU, and on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.finding import Finding
from aiflame.analyze.findings.gpu.below_limit import layers_below_limit
from aiflame.analyze.findings.gpu.blocks import blocks
from aiflame.analyze.findings.gpu.clocks import slow_clocks
from aiflame.analyze.findings.gpu.copies import pageable_copies
from aiflame.analyze.findings.gpu.facts import Facts
from aiflame.analyze.findings.gpu.host_calls import host_calls
from aiflame.analyze.findings.gpu.instructions import instructions
from aiflame.analyze.findings.gpu.optimizer import unfused_optimizer
from aiflame.analyze.findings.gpu.precision import precisions
from aiflame.analyze.findings.gpu.streams import serial_streams
from aiflame.analyze.findings.idle import Scope

DETECTORS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    host_calls,
    pageable_copies,
    unfused_optimizer,
    serial_streams,
    precisions,
    layers_below_limit,
    blocks,
    instructions,
    slow_clocks,
)


def gpu_causes(analysis: ProfileAnalysis, scope: Scope) -> Iterator[Finding]:
    facts = Facts(analysis, scope)
    for detect in DETECTORS:
        yield from detect(facts)
