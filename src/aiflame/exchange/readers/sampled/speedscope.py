"""speedscope's files (https://www.speedscope.app/file-format-schema.json): a thread for each profile in them.

Units of time become wall-clock time, others a metric. Calls that are open at the end go on until the end of their profile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiflame.attribute.tree import CPU_TIME, WALL_TIME
from aiflame.errors import AiflameError
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame, PythonFrame
from aiflame.exchange.readers.json_document import begins_object, document, item, mapping, number, scaled, sequence, text, whole
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.sampled.samples import CPU, DEEPEST, NO_TIME, WALL, Sampled, native_kind
from aiflame.exchange.readers.source import Source

_SCHEMA = b"speedscope.app/file-format-schema"
_TO_NS = {"nanoseconds": 1, "microseconds": 10**3, "milliseconds": 10**6, "seconds": 10**9}
_CLOCKS = {CPU_TIME.label: CPU, WALL_TIME.label: WALL}
"""aiflame's labels of metrics of time that threads spent; time of other kinds is a metric of its own."""
_MOST_LINE = (1 << 31) - 1


def is_one(head: bytes) -> bool:
    return begins_object(head) and _SCHEMA in head


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    whole_file = document(source)
    progress(0.3)
    by_aiflame = text(whole_file.get("exporter")).startswith("aiflame ")
    reading = _Reading(making, by_aiflame, [_frame(mapping(one)) for one in sequence(mapping(whole_file.get("shared")).get("frames"))])
    profiles = sequence(whole_file.get("profiles"))
    for at, profile in enumerate(profiles):
        reading.profile(mapping(profile), at)
        progress(0.3 + 0.6 * at / len(profiles))
    reading.finish()


def _frame(given: dict[str, Any]) -> AnyFrame:
    name, file = text(given.get("name")) or "[unknown]", text(given.get("file"))
    line = min(max(whole(given.get("line")), 0), _MOST_LINE)
    if file.endswith((".py", ".pyx")) or (file.startswith("<") and file.endswith(">")):
        return PythonFrame(name, file, 0, line)
    return NamedFrame(name, native_kind(name), "", file, line)


class _Reading:
    def __init__(self, making: Making, by_aiflame: bool, frames: list[AnyFrame]) -> None:
        """`by_aiflame`: names of profiles are labels of metrics."""
        self.making = making
        self._by_aiflame = by_aiflame
        self.rows = Sampled(making)
        self.process = self.rows.process()
        self._frames = [self.rows.frames.number(frame) for frame in frames]
        self._unknown = self.rows.frames.number(NamedFrame("[unknown]"))
        self._lost = self._crossed = self._back = self._rounded = 0
        self._in_order: list[tuple[int, int, int, int, int]] = []

    def profile(self, profile: dict[str, Any], at: int) -> None:
        self._thread = self.rows.thread(self.process, at + 1, text(profile.get("name")))
        unit = text(profile.get("unit"))
        self._factor = _TO_NS.get(unit, 1)
        named = text(profile.get("name")) if self._by_aiflame else ""
        self._clock = _CLOCKS.get(named, WALL)
        self._timed = unit in _TO_NS and (not named or named in _CLOCKS)
        name = "bytes" if unit == "bytes" else "samples"
        if not self._timed:
            self._kind = self.rows.kind(named or name, "ns" if unit in _TO_NS else name)
        kind = text(profile.get("type"))
        if kind == "sampled":
            self._sampled(profile)
        elif kind == "evented":
            self._evented(profile)
        else:
            raise AiflameError(f"the file has a profile of the type {kind[:40]!r}, which speedscope's format does not have")

    def finish(self) -> None:
        for count, what in (
            (self._lost, "references to frames that the file lacks: they are called [unknown]"),
            (self._crossed, "calls end while calls inside of them go on: those end with them, or had ended before"),
            (self._back, "events lie before the one in front of them: they count as at the same time"),
            (self._rounded, "values are fractions: they are rounded"),
        ):
            if count:
                self.making.note(f"{count:,} {what}")
        self.rows.finish()

    def _sampled(self, profile: dict[str, Any]) -> None:
        samples, weights = sequence(profile.get("samples")), sequence(profile.get("weights"))
        if len(weights) not in (0, len(samples)):
            raise AiflameError(f"the file has {len(samples):,} samples and {len(weights):,} weights")
        now = scaled(profile.get("startValue"), self._factor)
        for stack, weight in zip(samples, weights or [1] * len(samples), strict=True):
            frames = sequence(stack)
            if len(frames) > DEEPEST:
                raise AiflameError(f"a stack of the file has {len(frames):,} frames")
            call = -1
            for frame in frames:
                call = self._call(call, frame)
            took = self._amount(weight)
            now += took
            self._add(call, took, now)

    def _evented(self, profile: dict[str, Any]) -> None:
        calls: list[tuple[object, int]] = []
        before = self._amount(profile.get("startValue"))
        for event in map(mapping, sequence(profile.get("events"))):
            now = self._amount(event.get("at"))
            if now < before:
                self._back += 1
                now = before
            self._add(calls[-1][1] if calls else -1, now - before, now, idle=not calls)
            before = now
            frame, kind = event.get("frame"), event.get("type")
            if kind == "O":
                if len(calls) == DEEPEST:
                    raise AiflameError(f"calls of the file lie more than {DEEPEST:,} deep in each other")
                calls.append((frame, self._call(calls[-1][1] if calls else -1, frame)))
            elif kind == "C":
                self._close(calls, frame)
        end = self._amount(profile.get("endValue"))
        if calls and end > before:
            self._add(calls[-1][1], end - before, end)

    def _close(self, calls: list[tuple[object, int]], frame: object) -> None:
        if calls and calls[-1][0] == frame:
            calls.pop()
            return
        self._crossed += 1
        at = next((at for at in range(len(calls) - 1, -1, -1) if calls[at][0] == frame), None)
        if at is not None:
            del calls[at:]

    def _call(self, parent: int, frame: object) -> int:
        number = item(self._frames, frame)
        self._lost += number is None
        return self.rows.numbered_call(self.process, parent, self._unknown if number is None else number)

    def _amount(self, value: object) -> int:
        given = number(value)
        if not self._timed and isinstance(given, float) and not given.is_integer():
            self._rounded += 1
        return scaled(value, self._factor)

    def _add(self, call: int, amount: int, at: int, *, idle: bool = False) -> None:
        """`idle`: nothing ran."""
        if amount and not idle:
            if self._timed:
                self.rows.time(self.process, self._thread, call, self._clock, amount, at)
            else:
                self.rows.value(self.process, self._thread, call, self._kind, amount, NO_TIME)
