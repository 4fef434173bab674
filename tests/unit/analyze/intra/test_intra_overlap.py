"""Overlap and its bound, of loops of which it is known how long each thing takes, as different passes record them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from intra_captures import Cta, Kernel, scope, spans
from intra_kernels import BEGIN_NS, profile_of

from aiflame.analyze.intra.kernels import IntraKernel, intra

ISSUE, COPY, STORE, MATH = 40, 1200, 300, 900
"""Cycles: to issue two loads, until both values are there, to bring these to shared memory, to multiply."""
ITERATIONS = 20
ONE = COPY + STORE + MATH
BOUND = (STORE + MATH) / ONE
"""Only the copies can be hidden: bringing to shared memory stays."""

Spanned = list[tuple[int, int, int]]


def auto(at: int) -> Spanned:
    return [(0, at, at + COPY), (1, at + COPY + STORE, at + ONE)]


def loads_and_mma(at: int) -> Spanned:
    there, stored = at + COPY, at + COPY + STORE
    return [(0, at, at + 20), (1, at + 20, at + ISSUE), (2, at + ISSUE, there - 100), (3, there - 100, there), (4, stored, stored + 30),
            (5, stored + 30, at + ONE)]  # fmt: skip


SCHEDULES: dict[str, tuple[list[dict[str, object]], Callable[[int], Spanned]]] = {
    "auto": (
        [scope(0, "load a, b", "wait", op="tt.load", loop=0), scope(1, "dot sums", "wait", op="ttng.warp_group_dot", loop=0)],
        auto,
    ),
    "loads,mma": (
        [
            scope(0, "issue load a", "load", op="tt.load", phase="issue", loop=0),
            scope(1, "issue load b", "load", op="tt.load", phase="issue", loop=0),
            scope(2, "wait load a", "wait", op="ttg.local_alloc", phase="wait", pair=0, loop=0),
            scope(3, "wait load b", "wait", op="ttg.local_alloc", phase="wait", pair=1, loop=0),
            scope(4, "issue dot sums", "mma", op="ttng.warp_group_dot", loop=0),
            scope(5, "wait dot sums", "wait", op="ttng.warp_group_dot_wait", phase="wait", pair=4, loop=0),
        ],
        loads_and_mma,
    ),
}
APART = [
    scope(0, "issue load a", "load", op="tt.load", phase="issue", loop=0),
    scope(1, "wait load a", "wait", op="ttg.local_store", phase="wait", pair=0, loop=0),
    scope(2, "dot sums", "mma", op="tt.dot", loop=0),
]


def asked(path: Path, scopes: list[dict[str, object]], schedule: Callable[[int], Spanned]) -> IntraKernel:
    records = spans(*(one for number in range(ITERATIONS) for one in schedule(number * ONE)))
    kernel = Kernel("gemm", scopes, warps=1, ring=512)
    cta = Cta(0, begin=BEGIN_NS, end=BEGIN_NS + ITERATIONS * ONE // 2, warps={0: records})
    return intra(profile_of(path / "p.aiflame", kernel.frame(), kernel.launch(cta)))[0]


@pytest.mark.parametrize("recorded", SCHEDULES)
def test_the_bound_is_the_time_without_copies(tmp_path: Path, recorded: str) -> None:
    overlap = asked(tmp_path, *SCHEDULES[recorded]).overlap
    assert overlap is not None
    assert overlap.overlapped == 0
    assert overlap.bound == pytest.approx(BOUND, rel=0.01)
    assert overlap.exposed == pytest.approx(COPY / ONE, rel=0.01)
    assert overlap.math_ns == pytest.approx(ITERATIONS * MATH / 2, rel=0.01)


@pytest.mark.parametrize("recorded", SCHEDULES)
def test_the_missing_overlap_is_the_first_sentence(tmp_path: Path, recorded: str) -> None:
    first = asked(tmp_path, *SCHEDULES[recorded]).findings[0]
    assert first.kind == "no-overlap"
    assert f"{COPY / ONE:.0%} of the time copies are waited for and nothing is multiplied" in first.sentence


def test_work_that_a_warp_does_while_a_copy_is_on_its_way_stays(tmp_path: Path) -> None:
    """The exponentials of attention, say: no overlap with math makes them go away."""
    stands = 200

    def schedule(at: int) -> Spanned:
        return [(0, at, at + ISSUE), (1, at + COPY - stands, at + COPY), (2, at + COPY + STORE, at + ONE)]

    overlap = asked(tmp_path, APART, schedule).overlap
    assert overlap is not None
    assert overlap.copies_ns == pytest.approx(ITERATIONS * COPY / 2, rel=0.01)
    assert overlap.bound == pytest.approx(1 - (ISSUE + stands) / ONE, rel=0.01)


def test_loads_as_one_scope_are_a_wait(tmp_path: Path) -> None:
    findings_by_kind = {finding.kind: finding for finding in asked(tmp_path, *SCHEDULES["auto"]).findings}
    assert f"warps stand {COPY / ONE:.0%} of their time at `load a, b`" in findings_by_kind["wait"].sentence


def test_a_multiplication_that_is_not_waited_for_by_itself_counts_as_it_is_recorded(tmp_path: Path) -> None:
    """In a role, a multiplication and its wait may be one operation."""
    scopes = [scope(0, "load", "wait", op="tt.load"), scope(1, "dot", "mma", op="ttng.warp_group_dot")]
    kernel = Kernel("k", scopes, warps=1)
    cta = Cta(0, begin=BEGIN_NS, end=BEGIN_NS + 10_000, warps={0: spans((0, 0, 15_000), (1, 15_000, 20_000))})
    overlap = intra(profile_of(tmp_path / "p.aiflame", kernel.frame(), kernel.launch(cta)))[0].overlap
    assert overlap is not None
    assert overlap.math_ns == pytest.approx(2500, rel=0.02)
    assert overlap.exposed == pytest.approx(0.75, rel=0.02)


def test_launches_may_be_far_apart(tmp_path: Path) -> None:
    """CTAs times the time between launches is more than 64 bits can count."""
    scopes, schedule = SCHEDULES["auto"]
    records = spans(*(one for number in range(ITERATIONS) for one in schedule(number * ONE)))
    kernel = Kernel("gemm", scopes, warps=1, ring=512)
    frames = [kernel.frame()]
    for begin in (BEGIN_NS, BEGIN_NS + 3 * 10**17):
        ctas = [Cta(at, sm=at % 20, begin=begin, end=begin + ITERATIONS * ONE // 2, warps={0: records}) for at in range(40)]
        frames.append(kernel.launch(*ctas, begin_ns=begin))
    overlap = intra(profile_of(tmp_path / "p.aiflame", *frames))[0].overlap
    assert overlap is not None
    assert overlap.of_sms and overlap.bound == pytest.approx(BOUND, rel=0.01)
