"""Kernels whose roles hand copies on, of which it is known who waits for whom: a producer copies into a few buffers, consumers multiply."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from intra_captures import Cta, Kernel, scope, spans
from intra_kernels import BEGIN_NS, profile_of

from aiflame.analyze.intra.findings import IntraFinding
from aiflame.analyze.intra.kernels import IntraKernel, intra
from aiflame.analyze.spans import Spans, both, union, without
from aiflame.attribute.arrays.types import Ints

POLL = 20
"""Cycles of a wait for something that is there already."""
STEPS = 60
PRODUCER, ROOM, COPY, CONSUMER, FULL, SECOND, FULL_TOO, DOT = range(8)
SCOPES = [
    scope(PRODUCER, "producer", "role"),
    scope(ROOM, "wait for room a", "wait", op="ttng.wait_barrier", loop=0),
    scope(COPY, "issue copies", "load", op="ttng.async_tma_copy_global_to_local", loop=0),
    scope(CONSUMER, "consumer", "role"),
    scope(FULL, "wait copies", "wait", op="ttng.wait_barrier", loop=1),
    scope(SECOND, "consumer #2", "role"),
    scope(FULL_TOO, "wait copies #2", "wait", op="ttng.wait_barrier", loop=2),
    scope(DOT, "dot sums", "mma", op="ttng.warp_group_dot", loop=1),
]


@dataclass(frozen=True)
class Pipeline:
    issue: int
    """Cycles that the producer takes to issue a copy."""
    latency: int
    """Cycles from there until it is there."""
    math: int
    """Cycles that a consumer takes for each."""
    buffers: int
    consumers: int = 1
    math_too: int = 0
    """Math of the second consumer."""

    def run(self) -> tuple[dict[int, list[tuple[int, int, int]]], list[tuple[int, int]], list[tuple[int, int]], int]:
        """Spans of each warp; when copies were in flight, and when something was multiplied; when it was over."""
        maths = [self.math, self.math_too][: self.consumers]
        ends: list[list[int]] = [[] for _ in maths]
        scopes: dict[int, list[tuple[int, int, int]]] = {8: [], **{4 * which: [] for which in range(self.consumers)}}
        now, free = 0, [0] * self.consumers
        copies, multiplied = [], []
        for step in range(STEPS):
            empty = max(one[step - self.buffers] for one in ends) if step >= self.buffers else 0
            room = max(now + POLL, empty)
            scopes[8] += [(ROOM, now, room), (COPY, room, room + self.issue)]
            now = room + self.issue
            there = now + self.latency
            starts = []
            for which, math in enumerate(maths):
                start = max(free[which] + POLL, there)
                starts.append(start)
                scopes[4 * which].append(((FULL, FULL_TOO)[which], free[which], start))
                free[which] = start + math
                ends[which].append(free[which])
                multiplied.append((start, free[which]))
            copies.append((room, min(starts)))
        end = max(free)
        scopes[8].append((PRODUCER, 0, now))
        for which in range(self.consumers):
            scopes[4 * which].append(((CONSUMER, SECOND)[which], 0, end))
        return scopes, copies, multiplied, end


CONSUMER_BOUND = Pipeline(issue=50, latency=600, math=500, buffers=3)
PRODUCER_BOUND = Pipeline(issue=600, latency=200, math=300, buffers=3)
LATE_COPIES = Pipeline(issue=50, latency=2000, math=300, buffers=2)


def asked(path: Path, pipeline: Pipeline, ring: int = 512, **kernel_columns: str) -> IntraKernel:
    warps, _, _, end = pipeline.run()
    kernel = Kernel("gemm", SCOPES, warps=12, recorded=[0, 4, 8], ring=ring, header=kernel_columns)
    records = {warp: spans(*scopes) for warp, scopes in warps.items()}
    ctas = [
        Cta(number, sm=number, begin=BEGIN_NS, end=BEGIN_NS + end // 2, warps=records) for number in range(2)
    ]  # fmt: skip
    return intra(profile_of(path / "p.aiflame", kernel.frame(), kernel.launch(*ctas)))[0]


def parts(kernel: IntraKernel) -> dict[str, float]:
    assert kernel.path is not None
    return kernel.path.of_role()


def finding_of(kernel: IntraKernel, kind: str) -> IntraFinding | None:
    return next((one for one in kernel.findings if one.kind == kind), None)


@pytest.mark.parametrize("pipeline", [CONSUMER_BOUND, PRODUCER_BOUND, LATE_COPIES], ids=["consumer", "producer", "neither"])
def test_a_copy_is_in_flight_until_the_role_that_waits_for_it_goes_on(tmp_path: Path, pipeline: Pipeline) -> None:
    _, copies, multiplied, end = pipeline.run()
    times = [_union(each) for each in (copies, multiplied)]
    overlap = asked(tmp_path, pipeline).overlap
    assert overlap is not None
    assert overlap.copies_ns == pytest.approx(2 * times[0].total() / 2, rel=0.02)
    assert overlap.math_ns == pytest.approx(2 * times[1].total() / 2, rel=0.02)
    assert overlap.both_ns == pytest.approx(2 * both(*times).total() / 2, rel=0.03, abs=20)
    assert overlap.exposed == pytest.approx(without(*times).total() / end, abs=0.01)


def test_of_a_slow_consumer_nearly_all_of_the_path_is_its_work(tmp_path: Path) -> None:
    answer = asked(tmp_path, CONSUMER_BOUND)
    _, _, _, end = CONSUMER_BOUND.run()
    assert parts(answer)["consumer"] == pytest.approx(1 - (CONSUMER_BOUND.issue + CONSUMER_BOUND.latency) / end, abs=0.01)
    sentence = finding_of(answer, "role")
    assert sentence is not None
    assert sentence.sentence.startswith("`consumer` holds the others up: 98% of the critical path is its work; `producer` waits")
    assert "each time at `wait for room a`" in sentence.sentence
    assert finding_of(answer, "copies-late") is None
    assert finding_of(answer, "no-overlap") is None


def test_of_a_slow_producer_it_is_the_producers_work(tmp_path: Path) -> None:
    answer = asked(tmp_path, PRODUCER_BOUND)
    _, _, _, end = PRODUCER_BOUND.run()
    work = STEPS * (PRODUCER_BOUND.issue + POLL)
    assert parts(answer)["producer"] == pytest.approx(work / end, abs=0.02)
    assert answer.path is not None
    assert (answer.path.parts[0].role, answer.path.parts[0].scope) == ("producer", "issue copies")
    sentence = finding_of(answer, "role")
    assert sentence is not None
    assert sentence.sentence.startswith("`producer` holds the others up")
    assert "`consumer` waits" in sentence.sentence


def test_where_neither_is_slow_it_is_the_copies_that_come_late(tmp_path: Path) -> None:
    """Each two steps take a copy's time: with more buffers they would not."""
    answer = asked(tmp_path, LATE_COPIES)
    each = LATE_COPIES.issue + LATE_COPIES.latency + LATE_COPIES.math
    assert answer.path is not None
    assert answer.path.in_flight == pytest.approx((LATE_COPIES.latency + LATE_COPIES.issue) / each, abs=0.03)
    assert finding_of(answer, "role") is None
    sentence = finding_of(answer, "copies-late")
    assert sentence is not None
    assert "of the critical path lies in copies that nothing hides; `" in sentence.sentence


def test_buffers_are_as_many_as_the_producer_is_ahead_and_each_has_its_waits(tmp_path: Path) -> None:
    answer = asked(tmp_path, LATE_COPIES)
    warps, _, _, _ = LATE_COPIES.run()
    room = [end - begin for number, begin, end in warps[8] if number == ROOM]
    assert len(answer.slots) == LATE_COPIES.buffers
    for slot in answer.slots:
        waits = [room[STEPS - 1 - number] for number in range(STEPS) if number % LATE_COPIES.buffers == slot.number]
        assert slot.producer_ns == pytest.approx(sum(waits) / len(waits) / 2, rel=0.05)


def test_the_slower_of_two_consumers_is_named(tmp_path: Path) -> None:
    answer = asked(tmp_path, Pipeline(issue=50, latency=600, math=200, buffers=2, consumers=2, math_too=700))
    assert parts(answer)["consumer #2"] > 0.9
    assert answer.roles[0].name == "consumer #2"


def test_copies_are_shared_by_consumers_and_end_when_the_first_goes_on(tmp_path: Path) -> None:
    pipeline = Pipeline(issue=50, latency=600, math=200, buffers=2, consumers=2, math_too=700)
    _, copies, _, _ = pipeline.run()
    overlap = asked(tmp_path, pipeline).overlap
    assert overlap is not None
    assert overlap.copies_ns == pytest.approx(_union(copies).total(), rel=0.02)


def test_where_rings_wrapped_the_last_copies_are_still_matched(tmp_path: Path) -> None:
    whole, some = asked(tmp_path / "whole", LATE_COPIES), asked(tmp_path / "some", LATE_COPIES, ring=64)
    assert whole.overlap is not None
    assert some.overlap is not None
    assert some.overlap.exposed == pytest.approx(whole.overlap.exposed, abs=0.05)


def test_the_waits_of_a_role_are_reported_once(tmp_path: Path) -> None:
    """Nothing is said of single warps that the roles say already; and where a producer is slow, no finding advises more stages."""
    for number, pipeline in enumerate((CONSUMER_BOUND, PRODUCER_BOUND, LATE_COPIES)):
        answer = asked(tmp_path / str(number), pipeline)
        assert finding_of(answer, "wait") is None
        assert finding_of(answer, "hot-scope") is None or "issue copies" in answer.findings[1].sentence
        assert sum("num_stages" in one.sentence for one in answer.findings) == (pipeline is LATE_COPIES)


def test_the_number_of_buffers_is_unknown_where_the_producer_never_waits_for_room(tmp_path: Path) -> None:
    assert asked(tmp_path, PRODUCER_BOUND).slots == []


def test_nothing_is_said_of_multiplications_that_go_on_without_their_role(tmp_path: Path) -> None:
    """On Blackwell the multiplication runs beside the consumer, so the consumer's time between two waits says nothing about it."""
    answer = asked(tmp_path, CONSUMER_BOUND, arch="sm_100")
    assert answer.overlap is None
    assert answer.path is None


def _union(spans: list[tuple[int, int]]) -> Spans:
    begin, end = zip(*spans, strict=True)
    return union(_array(begin), _array(end))


def _array(values: tuple[int, ...]) -> Ints:
    return np.array(values, dtype=np.int64)
