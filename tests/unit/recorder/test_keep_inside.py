"""Requests of `aiflame.keep()` and of the callbacks for Trainers, by the clock of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

import aiflame
from aiflame import flight
from aiflame.profile.folder.door import Folder
from aiflame.recorder.ring import requests


@pytest.fixture
def ring(tmp_path: Path) -> Folder:
    Folder.new(tmp_path / "ring.aiflame").new_folder("requests")
    return Folder.open(tmp_path / "ring.aiflame")


def test_nothing_happens_without_a_ring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AIFLAME_PROFILE", raising=False)
    assert not aiflame.keep("why")
    monkeypatch.setenv("AIFLAME_PROFILE", str(tmp_path))  # recorded, but into no ring
    assert not aiflame.keep("why")
    assert list(tmp_path.iterdir()) == []


def test_a_request_has_its_reason_and_moment(ring: Folder) -> None:
    with flight.recording_into(ring.path):
        assert aiflame.keep('loss is "NaN"\x1b[31m')
    assert not aiflame.keep("later")
    (request,) = requests.take(ring)
    assert (request.kind, request.reason.startswith('loss is "NaN"'), "\x1b" in request.reason) == ("asked", True, False)
    assert request.time_ns > 0
    assert requests.take(ring) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"reason": "x"}', b'{"reason": "x", "time_ns": "now"}', b"\xff"])
def test_a_damaged_request_is_passed_over(ring: Folder, content: bytes) -> None:
    ring.folder("requests").put("bad.asked", content)
    with flight.recording_into(ring.path):
        aiflame.keep("good")
    assert [request.reason for request in requests.take(ring)] == ["good"]


def test_slow_steps_are_those_beyond_the_median(ring: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before eight steps none is slow, however long it takes."""
    now = [100.0]
    monkeypatch.setattr("aiflame.flight.time.monotonic", lambda: now[0])
    steps = flight.SlowSteps(3)
    slow = []
    with flight.recording_into(ring.path):
        for number, took in enumerate([9.0, *[1.0] * 9, 2.9, 3.0, 1.0]):
            steps.begin()
            now[0] += took
            if steps.end(f"step {number}"):
                slow.append(number)
    assert slow == [11]
    assert [request.reason for request in requests.take(ring)] == ["step 11 took 3.00 s, 3.0 times the median"]
    with pytest.raises(ValueError, match="median"):
        flight.SlowSteps(1)
