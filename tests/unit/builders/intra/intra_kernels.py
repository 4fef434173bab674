"""Kernels whose schedule is known: each multiprocessor follows the steps written here, cycle by cycle, at two cycles a nanosecond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from intra_captures import Cta, Kernel, Record, scope, spans, write
from profiles import Row, ran, sealed

from aiflame.profile.tables.store import Profile
from aiflame.resolve.device.intra_tables import write_intra_tables

BEGIN_NS = 10**9
"""Begin of the first launch, by the device's timer."""
COPY, MATH, ISSUE = 800, 400, 20
"""Cycles that a copy is on its way, that a multiplication takes, that it takes to ask for either."""
ITERATIONS = 16

ISSUED_LOAD, LOADED, DOT, DOTTED, FIRST, SECOND, COPIES, DRAIN, LOOP, KERNEL = range(10)
ONE_STAGE = [
    scope(ISSUED_LOAD, "issue load a", "load", op="tt.load", phase="issue", loop=0, line=30),
    scope(LOADED, "wait load a", "wait", op="ttg.local_alloc", phase="wait", pair=ISSUED_LOAD, loop=0, line=31),
    scope(DOT, "issue dot acc", "mma", op="ttng.warp_group_dot", loop=0, line=33),
    scope(DOTTED, "wait dot acc", "wait", op="ttng.warp_group_dot_wait", phase="wait", pair=DOT, loop=0, line=33),
    scope(LOOP, "loop at 29", "loop", op="scf.for", line=29),
]
PIPELINED = [
    scope(FIRST, "issue copy a", "load", op="ttg.async_copy_global_to_local", line=30),
    scope(SECOND, "issue copy a #2", "load", op="ttg.async_copy_global_to_local", line=30),
    scope(ISSUED_LOAD, "issue copy a #3", "load", op="ttg.async_copy_global_to_local", loop=0, line=30),
    scope(COPIES, "wait copies", "wait", op="ttg.async_wait", loop=0, line=30),
    scope(DOT, "issue dot acc", "mma", op="ttng.warp_group_dot", loop=0, line=33),
    scope(DOTTED, "wait dot acc", "wait", op="ttng.warp_group_dot_wait", phase="wait", pair=DOT, loop=0, line=33),
    scope(LOOP, "loop at 29", "loop", op="scf.for", line=29),
]


def one_stage(begin: int) -> list[Record]:
    """Load, wait, multiply, wait: nothing overlaps."""
    scopes, at = [], begin
    for _ in range(ITERATIONS):
        loaded = at + COPY
        scopes += [(ISSUED_LOAD, at, at + ISSUE), (LOADED, at + ISSUE, loaded), (DOT, loaded, loaded + ISSUE)]
        at = loaded + MATH
        scopes.append((DOTTED, loaded + ISSUE, at))
    return spans((LOOP, begin, at), *scopes)


def pipelined(begin: int) -> list[Record]:
    """Copies are made two iterations ahead: after the first, they are there when they are waited for."""
    scopes: list[tuple[int, int, int]] = [(FIRST, begin, begin + ISSUE), (SECOND, begin + ISSUE, begin + 2 * ISSUE)]
    there = [begin + COPY, begin + COPY + ISSUE]
    at = loop = begin + 2 * ISSUE
    for number in range(ITERATIONS):
        ready = max(at + ISSUE, there[number])
        scopes += [(COPIES, at, ready), (DOT, ready, ready + ISSUE), (ISSUED_LOAD, ready + ISSUE, ready + 2 * ISSUE)]
        there.append(ready + ISSUE + COPY)
        at = ready + MATH
        scopes.append((DOTTED, ready + 2 * ISSUE, at))
    return spans((LOOP, loop, at), *scopes)


def gemm(scopes: Sequence[dict[str, Any]], schedule: Callable[[int], list[Record]], name: str = "gemm", **header: Any) -> bytes:
    """Two multiprocessors run two CTAs each, one after the other; each warp does the same."""
    kernel = Kernel(name, scopes, warps=2, ring=256, **header)
    ctas = []
    for number in range(4):
        clock = 5000 + (number // 2) * 100_000
        records = schedule(clock)
        begin, end = (BEGIN_NS + (at - 5000) // 2 for at in (clock, records[-1][2]))
        ctas.append(Cta(number, sm=number % 2, begin=begin, end=end, warps={0: records, 1: records}))
    return kernel.frame() + kernel.launch(*ctas, begin_ns=50)


def profile_of(path: Path, *frames: bytes, kernels: Sequence[Row] = (), pid: int = 7, **tables: Any) -> Profile:
    """A sealed profile of a process with these captures."""
    tables = {"processes": [{"pid": pid, "start_ns": 1}], **tables}
    if kernels:
        tables |= ran(*kernels)
    profile = sealed(path, **tables)
    write(path / "intra" / f"{pid}.captures", *frames)
    profile.meta = profile.meta.with_notes(*write_intra_tables(profile))
    return profile
