"""`--on`: the events at which the window is kept, beside the end of the program and requests."""

from __future__ import annotations

import re
import signal

from aiflame.errors import AiflameError
from aiflame.recorder.ring.steps import Step
from aiflame.values import dataclass

_SIGNALS = ("USR1", "USR2", "HUP")


@dataclass(frozen=True, slots=True)
class Triggers:
    slow_step: float = 0.0
    """A step that takes so many times the median; 0: none is slow."""
    hang_s: float = 0.0
    """No step has ended for so many seconds; 0: never."""
    signals: tuple[int, ...] = ()


def parse_on(texts: str) -> Triggers:
    slow, hang = 0.0, 0.0
    signals: list[int] = []
    for text in filter(None, (part.strip() for part in texts.split(","))):
        name, _, value = text.partition(":")
        if name == "slow-step" and (match := re.fullmatch(r"(\d+(?:\.\d+)?)x?", value)) and float(match[1]) > 1:
            slow = float(match[1])
        elif name == "hang" and (match := re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|)", value)) and float(match[1]) > 0:
            hang = float(match[1]) * (60 if match[2] == "m" else 1)
        elif name == "signal" and value.upper().removeprefix("SIG") in _SIGNALS:
            signals.append(int(signal.Signals[f"SIG{value.upper().removeprefix('SIG')}"]))
        else:
            raise AiflameError(f"--on {text}: write slow-step:3x, hang:60s or signal:USR2 (USR1, USR2 or HUP)")
    return Triggers(slow, hang, tuple(signals))


class Watcher:
    """Says when a step was slow, and when no step has come for too long."""

    def __init__(self, triggers: Triggers) -> None:
        self._triggers = triggers
        self._last_end_ns = 0
        self._hangs = False

    @property
    def needs_steps(self) -> bool:
        return bool(self._triggers.slow_step or self._triggers.hang_s)

    def causes(self, steps: list[Step], now_ns: int) -> list[tuple[str, str, int]]:
        """(short name, cause for people, moment)"""
        causes = []
        for step in steps:
            self._last_end_ns, self._hangs = max(self._last_end_ns, step.end_ns), False
            if self._triggers.slow_step and step.times_slower() >= self._triggers.slow_step:
                text = f"step {step.number} took {step.took_ns / 1e9:.2f} s, {step.times_slower():.1f} times the median"
                causes.append((f"slow-step-{step.number}", text, step.end_ns))
        waited = (now_ns - self._last_end_ns) / 1e9
        if self._triggers.hang_s and self._last_end_ns and not self._hangs and waited >= self._triggers.hang_s:
            self._hangs = True
            causes.append(("hang", f"no step has ended for {waited:.0f} s", now_ns))
        return causes
