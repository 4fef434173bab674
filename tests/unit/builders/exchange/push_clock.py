"""Bodies for a queue, and a clock whose hours pass at once."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from aiflame.push.queue import Body
from aiflame.push.sender import Clock


class HandClock(Clock):
    def __init__(self, when_asleep: Callable[[float], None] = lambda now: None) -> None:
        self.passed = 0.0
        self.slept: list[float] = []
        self._when_asleep = when_asleep

    def now(self) -> float:
        return self.passed

    def wall(self) -> float:
        return 1_800_000_000 + self.passed

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.passed += seconds
        self._when_asleep(self.passed)


def body(text: bytes) -> Body:
    return Body(sha256(text).hexdigest()[:32], text, "application/x-protobuf", profile="p.aiflame")
