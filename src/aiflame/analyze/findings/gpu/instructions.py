"""Kernels that one kind of instruction delays: spills, atomics, shared memory, scattered accesses; or memory in general."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.analyze.device.limits import WARP, device, residency
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings.gpu.catalogue import FEW_RECORDS, FEW_SAMPLES, least
from aiflame.analyze.findings.gpu.facts import Facts, Kernel, Sampled, at, distinct_kernels
from aiflame.analyze.findings.gpu.sass import ATOMIC, GLOBAL, LOCAL, SHARED, TENSOR
from aiflame.analyze.layer_groups import escaped
from aiflame.attribute.tree import GPU_STALLS
from aiflame.resolve.device.stall_reasons import NO_STALLS, SELECTED

SPILLS, ATOMICS, CONFLICTS, THROTTLED, MEMORY, LATENCY = 0.2, 0.3, 0.4, 0.25, 0.6, 0.4
"""Shares of a kernel's samples."""
JAMMED = 0.1
"""A share of a kernel's samples: accesses cannot be issued because earlier ones are not done. Waiting for the result of an atomic operation
is no sign of contention."""
FEW_WARPS = 0.3
"""A share of the warps that a multiprocessor can hold: with fewer, it has little to do while some wait for memory."""
SMALL_BLOCKS = 0.5
"""The same if the number of blocks is the limit, which is easy to mend."""
FULL = 0.5
"""Above this share, more warps would not help."""
SLOW = 0.4
"""A share of the memory's rate."""
LATENCY_CYCLES = 800
"""Cycles of a load from memory: at its full rate, as many bytes are under way as it delivers in this time."""
_APART = "each access of a warp takes many transactions, as its addresses lie apart"
GAIN_OF_WAITING = 0.7
"""The likely gain, as a share of the time that warps wait: other warps worked in that time."""
GAIN_OF_MEMORY = 0.5

_HELD = ~pl.col("reason").is_in(NO_STALLS)
_LOCAL = _HELD & pl.col("blamed").is_in(LOCAL)
_ATOMIC = _HELD & (pl.col("opcode").is_in(ATOMIC) | pl.col("blamed").is_in(ATOMIC))
_FULL_QUEUE = pl.col("reason").is_in(["lg_throttle", "drain", "mio_throttle"]) | (_HELD & pl.col("blamed").is_in(ATOMIC))
_SHARED = pl.col("reason").is_in(["short_scoreboard", "mio_throttle"]) & pl.col("blamed").is_in(SHARED)
_QUEUED = (pl.col("reason") == "lg_throttle") & pl.col("opcode").is_in(GLOBAL)
_MEMORY = pl.col("reason").is_in(["long_scoreboard", "lg_throttle"]) & pl.col("blamed").is_in(GLOBAL)
_LATENCY = pl.col("reason").is_in(["long_scoreboard", "short_scoreboard", "wait"])


def instructions(facts: Facts) -> Iterator[Finding]:
    for kernel in distinct_kernels(facts, min(map(least, ("spills", "atomics", "shared-memory", "scattered-access")))):
        sampled = facts.sampled(kernel.name)
        if sampled is None or sampled.total < FEW_SAMPLES or kernel.launches < FEW_RECORDS:
            continue
        yield from _of_kernel(facts, kernel, sampled)


def _of_kernel(facts: Facts, kernel: Kernel, sampled: Sampled) -> Iterator[Finding]:
    uses_tensor_cores = any(one.opcode in TENSOR for one in sampled.listing)
    if (part := sampled.part(_LOCAL)) >= SPILLS:
        each = f"{kernel.local_bytes:,} bytes" if kernel.local_bytes else "values"
        why = f"wait for local memory, in which each thread keeps {each} (spilled registers or arrays)"
        yield _finding(facts, kernel, sampled, "spills", part, _LOCAL, why)
    elif (part := sampled.part(_ATOMIC)) >= ATOMICS and sampled.part(_FULL_QUEUE) >= JAMMED:
        yield _finding(facts, kernel, sampled, "atomics", part, _ATOMIC, "wait at atomic operations: those on one address take turns")
    elif not uses_tensor_cores and (part := sampled.part(_SHARED)) >= CONFLICTS:
        yield _finding(
            facts, kernel, sampled, "shared-memory", part, _SHARED, "wait for shared memory: bank conflicts, or many small accesses"
        )
    elif (part := sampled.part(_QUEUED)) >= THROTTLED:
        yield _finding(facts, kernel, sampled, "scattered-access", part, _QUEUED, f"wait to ask for memory: {_APART}")
    elif (part := sampled.part(_MEMORY)) >= MEMORY and (rate := _rate(kernel, sampled)) is not None and rate < SLOW:
        why = f"wait for memory, at {rate:.0%} of its rate with loads enough on their way: {_APART}"
        yield _finding(facts, kernel, sampled, "scattered-access", part, _MEMORY, why)
    elif not uses_tensor_cores and kernel.share >= least("memory-bound"):
        yield from _by_warps(facts, kernel, sampled)


def _rate(kernel: Kernel, sampled: Sampled) -> float | None:
    """The bytes that warps request, as a share of the memory's rate; None if too few loads are under way for this rate, or there are too
    few samples. A warp that issues a load is sampled as `selected`: the share of these samples, times the warps of a multiprocessor, is the
    number of loads in a cycle."""
    limits = device(kernel.device)
    fit = residency(limits, kernel.block, kernel.registers, kernel.shared) if limits is not None else None
    if limits is None or fit is None:
        return None
    warps = min(fit.blocks, -(-kernel.grid // limits.multiprocessors)) * (fit.warps // fit.blocks)
    issued = sampled.rows.filter((pl.col("reason") == SELECTED) & (pl.col("opcode") == "LDG"))
    waiting = sampled.rows.filter(_MEMORY & (pl.col("flying") > 0))
    if int(issued["samples"].sum()) < FEW_SAMPLES or waiting.is_empty():
        return None
    flying = int((waiting["flying"] * waiting["samples"]).sum()) / int(waiting["samples"].sum())
    bytes_of = {one.offset: one.bits // 8 for one in sampled.listing}
    loaded: int = sum(bytes_of.get(offset, 4) * samples for offset, samples in issued.select("offset", "samples").rows())
    if warps * WARP * flying < limits.memory_bytes * LATENCY_CYCLES:
        return None
    return loaded * WARP * warps / sampled.total / limits.memory_bytes


def _by_warps(facts: Facts, kernel: Kernel, sampled: Sampled) -> Iterator[Finding]:
    """Finds a kernel that waits for memory although, or because, its multiprocessors are full."""
    limits = device(kernel.device)
    fit = residency(limits, kernel.block, kernel.registers, kernel.shared) if limits is not None else None
    if limits is None or fit is None or kernel.grid < limits.multiprocessors * fit.blocks:
        return
    part, full = sampled.part(_LATENCY), fit.warps / limits.warps
    if full <= (SMALL_BLOCKS if fit.limited_by == "block" else FEW_WARPS) and part >= LATENCY:
        used = {
            "registers": f"{kernel.registers} registers a thread",
            "shared": f"{kernel.shared >> 10:,} KiB of shared memory a block",
            "block": f"blocks of {kernel.block:,} threads",
        }[fit.limited_by]
        why = f"wait for results, with {fit.warps} of {limits.warps} warps on each multiprocessor: {used} allow no more"
        yield _finding(facts, kernel, sampled, f"few-warps-{fit.limited_by}", part, _LATENCY, why)
    elif full >= FULL and (part := sampled.part(_MEMORY)) >= MEMORY:
        why = f"wait for memory, although {fit.warps} of {limits.warps} warps are on each multiprocessor"
        yield _finding(facts, kernel, sampled, "memory-bound", part, _MEMORY, why, GAIN_OF_MEMORY)


def _finding(
    facts: Facts, kernel: Kernel, sampled: Sampled, kind: str, part: float, rows: pl.Expr, why: str, gain: float = GAIN_OF_WAITING
) -> Finding:
    place = sampled.place(rows)
    sentence = f"{kernel.short} takes {facts.took(kernel.took)}; {part:.0%} of its {sampled.total:,} samples {why}{at(place, ', most at ')}"
    stall = sampled.rows.filter(rows).group_by("reason").agg(pl.col("samples").sum()).sort("samples", "reason", descending=[True, False])
    view = Evidence("kernels", GPU_STALLS.name, "code", f"^{escaped(kernel.short)}$", kernel.name, place=place, stall=stall["reason"][0])
    return Finding(sentence, kernel.share, view, kind, kernel.share * part * gain)
