"""Kernels whose grid does not fill the device: fewer blocks than multiprocessors, or a last wave with few blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator

import polars as pl

from aiflame.analyze.device.limits import Device, device, residency
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings.gpu.catalogue import FEW_RECORDS, FEW_SAMPLES, least
from aiflame.analyze.findings.gpu.facts import Facts, Kernel, at, distinct_kernels
from aiflame.analyze.layer_groups import escaped
from aiflame.attribute.tree import GPU_TIME

LONG_NS = 20_000
"""A shorter kernel takes little more than its launch."""
HALF = 0.5
"""A share of the multiprocessors: a grid that was chosen for another device, or that leaves room for the next kernel, is smaller than the
device, but not below this."""
MANY_WAVES = 3
"""With more waves, the last one is a small part."""
EFFICIENT = 0.7
GAIN = 0.7
"""The likely gain: smaller blocks have some overhead."""
SIDE_BY_SIDE = 1.3
"""Kernels that run at once, on average: above this, they share the multiprocessors."""
_COMPUTES = ("gemm", "attention", "convolution")
"""Families whose kernels wait for arithmetic, unless samples show otherwise."""
_MEMORY = pl.col("reason").is_in(["long_scoreboard", "lg_throttle"])
MOSTLY = 0.4


def blocks(facts: Facts) -> Iterator[Finding]:
    if facts.side_by_side > SIDE_BY_SIDE:
        return
    for kernel in distinct_kernels(facts, min(least("few-blocks"), least("last-wave"))):
        limits = device(kernel.device)
        if limits is None or not kernel.grid or kernel.launches < FEW_RECORDS or kernel.mean < LONG_NS:
            continue
        if kernel.grid < HALF * limits.multiprocessors:
            idle = limits.multiprocessors - kernel.grid
            many = "its one block leaves" if kernel.grid == 1 else f"its {kernel.grid} blocks leave"
            why = f"{many} {idle} of {limits.multiprocessors} multiprocessors without work"
            yield _finding(facts, kernel, "few-blocks", idle / limits.multiprocessors * GAIN, why)
        else:
            yield from _last_wave(facts, kernel, limits)


def _last_wave(facts: Facts, kernel: Kernel, limits: Device) -> Iterator[Finding]:
    fit = residency(limits, kernel.block, kernel.registers, kernel.shared)
    if fit is None or not _is_bound_by_arithmetic(facts, kernel):
        return
    at_once = limits.multiprocessors * fit.blocks
    waves = kernel.grid / at_once
    used = waves / math.ceil(waves)
    if 1 < waves < MANY_WAVES and used < EFFICIENT:
        last = kernel.grid % at_once
        why = f"of its {kernel.grid:,} blocks {at_once:,} run at once, and the last {last:,} alone"
        yield _finding(facts, kernel, "last-wave", (1 - used) * GAIN, why)


def _is_bound_by_arithmetic(facts: Facts, kernel: Kernel) -> bool:
    """The blocks of a kernel that waits for memory take less time if few of them run at once."""
    sampled = facts.sampled(kernel.name)
    if sampled is None or sampled.total < FEW_SAMPLES:
        return kernel.family in _COMPUTES
    return sampled.part(_MEMORY) < MOSTLY


def _finding(facts: Facts, kernel: Kernel, kind: str, gain: float, why: str) -> Finding:
    launched = f" ({kernel.launches:,} launches{at(kernel.place)})"
    sentence = f"{kernel.short} takes {facts.took(kernel.took)}; {why}{launched}"
    view = Evidence("flame", GPU_TIME.name, "code", f"^{escaped(kernel.short)}$", kernel.name, place=kernel.place)
    return Finding(sentence, kernel.share, view, kind, kernel.share * gain)
