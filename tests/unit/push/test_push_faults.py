"""A real receiver with faults, and a clock of the test: each body of the queue arrives once, but for those that were counted."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from push_clock import HandClock, body
from receiver import FAULTS, Receiver, running

from aiflame.push.destination import Destination
from aiflame.push.queue import Queue
from aiflame.push.sender import Limits, _seconds, send

QUICK = Limits(silence_s=0.15, request_s=0.3, patience_s=3600)


@pytest.fixture(scope="module")
def steady() -> Iterator[Receiver]:
    with running() as receiver:
        yield receiver


@settings(max_examples=15, deadline=None)
@given(
    faults=st.lists(st.sampled_from([fault for fault in FAULTS if fault != "hang"]), max_size=12),
    texts=st.lists(st.binary(min_size=1, max_size=200), min_size=1, max_size=6, unique=True),
    again=st.lists(st.integers(0, 5), max_size=3),
)
def test_any_order_of_faults_ends_with_each_body_once(steady: Receiver, faults: list[str], texts: list[bytes], again: list[int]) -> None:
    steady.kept.clear()
    steady.faults.clear()
    steady.faults.extend(faults)
    queue = Queue.to(Destination.of(steady.url))
    before = queue.counts()
    for text in [*texts, *(texts[at % len(texts)] for at in again)]:
        assert queue.put(body(text))
    outcome = send(queue, HandClock(), QUICK)
    assert (outcome.waiting, outcome.refused, outcome.reason) == (0, 0, "")
    assert sorted(steady.kept.values()) == sorted(texts)
    assert outcome.counts.arrived - before.arrived == len(texts)
    assert outcome.counts.let_go == before.let_go


def test_an_hour_of_faults_and_a_restart_loses_nothing() -> None:
    """A window comes each minute; for the twenty minutes in the middle no receiver listens."""
    texts = [b"window %d" % number for number in range(60)]
    coming = list(texts)
    receiver = Receiver()
    with contextlib.ExitStack() as up, contextlib.ExitStack() as up_again:
        up.enter_context(running(receiver))
        queue = Queue.to(Destination.of(receiver.url))
        receiver.faults.extend(["500", "answer lost", "hang"] * 4)

        def minute_by_minute(now: float) -> None:
            while coming and now >= 60 * (len(texts) - len(coming)):
                queue.put(body(coming.pop(0)))
            if 1200 < now < 2400:
                up.close()
            elif now >= 2400 and not again:
                again.append(up_again.enter_context(running(receiver)))

        again: list[Receiver] = []
        clock = HandClock(minute_by_minute)
        clock.sleep(0)
        while coming or queue.waiting():
            send(queue, clock, Limits(silence_s=0.05, request_s=0.3, patience_s=30))
            clock.sleep(30)
    assert again
    assert clock.passed > 3500
    assert sorted(receiver.kept.values()) == sorted(texts)
    assert (queue.counts().arrived, queue.counts().let_go, queue.counts().refused) == (60, 0, 0)
    assert len(receiver.heard) > 60, "some came twice, and their id said so"


def test_what_the_bound_lets_go_is_counted_and_the_rest_arrives(receiver: Receiver) -> None:
    destination = Destination.of(receiver.url)
    size = _size_of_one(destination)
    queue = Queue.to(destination, most_bytes=3 * size)
    for number in range(10):
        assert queue.put(body(b"window %d" % number))
    outcome = send(queue, HandClock(), QUICK)
    assert sorted(receiver.kept.values()) == [b"window 7", b"window 8", b"window 9"]
    assert (outcome.counts.arrived, outcome.counts.let_go) == (3, 7)
    assert not queue.put(body(b"x" * 4 * size)), "it is larger than all the room"
    assert queue.counts().let_go == 8


def _size_of_one(destination: Destination) -> int:
    queue = Queue.to(destination)
    queue.put(body(b"window 0"))
    (one,) = queue.waiting()
    return one.bytes


def test_waits_grow_and_are_not_alike_and_those_asked_for_are_kept(receiver: Receiver) -> None:
    queue = Queue.to(Destination.of(receiver.url))
    queue.put(body(b"a"))
    receiver.faults.extend(["503"] * 12)
    clock = HandClock()
    send(queue, clock, QUICK)
    for number, slept in enumerate(clock.slept):
        assert min(2.0**number, 60) / 2 <= slept <= min(2.0**number, 60)
    assert len(clock.slept) == 12
    queue.put(body(b"b"))
    receiver.faults.append("429 later")
    clock = HandClock()
    assert send(queue, clock, QUICK).waiting == 0
    assert clock.slept == [120]
    queue.put(body(b"c"))
    receiver.faults.append("429 later")
    outcome = send(queue, clock, Limits(patience_s=60))
    assert (outcome.waiting, outcome.reason) == (1, f"localhost:{receiver.port} answers 429")
    assert clock.slept == [120], "the patience would be over before"


def test_a_date_may_say_when_to_come_again() -> None:
    assert _seconds("Fri, 15 Jan 2027 08:01:40 GMT", HandClock()) == 100
    assert _seconds("Fri, 15 Jan 2021 08:01:40 GMT", HandClock()) == 0
    assert [_seconds(text, HandClock()) for text in ("", "soon", "-5", "1e9", "9" * 400)] == [0, 0, 0, 0, 999_999_999]


@pytest.mark.parametrize("fault", ["hang", "drips"])
def test_a_receiver_that_is_too_slow_is_left(receiver: Receiver, fault: str) -> None:
    queue = Queue.to(Destination.of(receiver.url))
    queue.put(body(b"a"))
    receiver.faults.append(fault)
    clock = HandClock()
    assert send(queue, clock, QUICK).waiting == 0
    assert len(clock.slept) == 1
    assert list(receiver.kept.values()) == [b"a"]


def test_one_body_that_always_fails_does_not_hold_up_the_others(receiver: Receiver) -> None:
    queue = Queue.to(Destination.of(receiver.url))
    for text in (b"bad", b"good", b"better"):
        queue.put(body(text))
    receiver.faults.extend(["500", "", "", *["500"] * 20])
    outcome = send(queue, HandClock(), Limits(patience_s=60))
    assert sorted(receiver.kept.values()) == [b"better", b"good"]
    assert outcome.waiting == 1


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("400", "answers 400"),
        ("413", "answers 413: the body is too large for it"),
        ("say " + bytes([10, 12, 8, 3, 18, 8, *b"no room\n"]).hex(), "took a body in part: 3 profiles rejected: no room?"),
    ],
)
def test_what_a_receiver_will_never_take_is_counted(receiver: Receiver, fault: str, reason: str) -> None:
    queue = Queue.to(Destination.of(receiver.url))
    queue.put(body(b"a"))
    queue.put(body(b"b"))
    receiver.faults.append(fault)
    outcome = send(queue, HandClock(), QUICK)
    assert (outcome.arrived, outcome.refused, outcome.waiting) == (1, 1, 0)
    assert outcome.refusal == f"localhost:{receiver.port} {reason}"
    assert outcome.counts.refused == 1


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("401", "answers 401: the headers do not let us in (--push-headers FILE)"),
        ("404", "answers 404: is {url} the receiver of otlp?"),
        ("lead to 301 /elsewhere", "answers 301, and leads to /elsewhere: name that URL if you trust it"),
        ("lead to 307 http://example.org/x", "leads to http://example.org/x: name that URL if you trust it"),
        ("lead to 307 http://localhost:1/x", "leads to http://localhost:1/x: name that URL if you trust it"),
        ("lead to 308 https://localhost/x\x1b[31m", "leads to https://localhost/x?[31m: name that URL if you trust it"),
    ],
)
def test_what_a_person_must_change_ends_the_attempts_and_loses_nothing(receiver: Receiver, fault: str, reason: str) -> None:
    queue = Queue.to(Destination.of(receiver.url))
    queue.put(body(b"a"))
    receiver.faults.append(fault)
    clock = HandClock()
    outcome = send(queue, clock, QUICK)
    assert (outcome.waiting, clock.slept) == (1, [])
    assert outcome.reason == f"localhost:{receiver.port} {reason.format(url=receiver.url)}"
    assert queue.counts().reason == outcome.reason
    assert send(queue, clock, QUICK).waiting == 0
    assert queue.counts().reason == ""


def test_another_address_of_the_same_receiver_is_followed(receiver: Receiver) -> None:
    queue = Queue.to(Destination.of(receiver.url))
    queue.put(body(b"a"))
    receiver.faults.append("lead to 307 /there?x=1")
    assert send(queue, HandClock(), QUICK).waiting == 0
    assert [path for path, _ in receiver.heard] == ["/v1development/profiles", "/there?x=1"]
    queue.put(body(b"b"))
    receiver.faults.extend(["lead to 307 /there"] * 9)
    assert send(queue, HandClock(), QUICK).reason == f"localhost:{receiver.port} leads from one address to the next"


LARGE = bytes(16 << 20)
"""More than the kernel holds between sender and receiver."""


@pytest.mark.timed
def test_a_large_body_may_take_longer_than_the_silence_that_is_allowed(receiver: Receiver) -> None:
    """64 parts of 256 KB, each after 50 ms: 3.2 s."""
    queue = Queue.to(Destination.of(receiver.url))
    queue.put(body(LARGE))
    receiver.faults.append("takes its time")
    clock = HandClock()
    outcome = send(queue, clock, Limits(silence_s=0.8, request_s=60))
    assert (outcome.reason, outcome.arrived, clock.slept) == ("", 1, [])


def test_the_answer_counts_also_where_the_receiver_closes_before_it_has_the_body(receiver: Receiver) -> None:
    queue = Queue.to(Destination.of(receiver.url))
    queue.put(body(LARGE))
    receiver.faults.append("413 early")
    outcome = send(queue, HandClock(), Limits(patience_s=0))
    assert (outcome.refused, outcome.waiting) == (1, 0)
    assert outcome.refusal == f"localhost:{receiver.port} answers 413: the body is too large for it"


@pytest.mark.parametrize("fault", ["500", "close at once", "no http"])
def test_bodies_that_always_fail_do_not_starve_newer_ones(receiver: Receiver, fault: str) -> None:
    """There are more of them than failures that end a round, and each process has the patience for one round."""
    queue = Queue.to(Destination.of(receiver.url))
    bad = [b"bad %d" % number for number in range(4)]
    for text in (*bad, b"good", b"better"):
        queue.put(body(text))
    receiver.always = {body(text).id: fault for text in bad}
    send(queue, HandClock(), Limits(patience_s=0.1))
    assert receiver.kept == {}
    outcome = send(queue, HandClock(), Limits(patience_s=0.1))
    assert sorted(receiver.kept.values()) == [b"better", b"good"]
    assert (outcome.waiting, outcome.refused) == (4, 0)


def test_nobody_waits_for_each_body_where_nobody_listens() -> None:
    with running() as receiver:
        pass
    queue = Queue.to(Destination.of(receiver.url))
    for text in (b"a", b"b", b"c"):
        queue.put(body(text))
    before = [one.tried_ns for one in queue.waiting()]
    assert "cannot be reached" in send(queue, HandClock(), Limits(patience_s=0)).reason
    assert [old != new.tried_ns for old, new in zip(before, queue.waiting(), strict=True)] == [True, False, False]


def test_in_the_background_each_new_body_gets_all_the_patience() -> None:
    with running() as receiver:
        pass
    queue = Queue.to(Destination.of(receiver.url))
    queue.put(body(b"a"))

    def one_comes(now: float) -> None:
        if now > 1000:
            queue.put(body(b"b"))

    clock = HandClock(one_comes)
    send(queue, clock, Limits(patience_s=1500))
    assert 1400 < clock.passed <= 1500
    queue.drop()
    queue.put(body(b"a"))
    clock = HandClock(one_comes)
    assert send(queue, clock, Limits(patience_s=1500, from_newest=True)).waiting == 2
    assert 2400 < clock.passed <= 2600


def test_one_attempt_takes_no_longer_than_the_patience(receiver: Receiver) -> None:
    queue = Queue.to(Destination.of(receiver.url))
    queue.put(body(b"a"))
    receiver.faults.append("hang")
    began = time.monotonic()
    assert send(queue, HandClock(), Limits(silence_s=30, patience_s=0)).reason == f"localhost:{receiver.port} does not answer"
    assert time.monotonic() - began < 15
