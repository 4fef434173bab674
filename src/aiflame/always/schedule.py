"""Which process is recorded next, and when the budget allows it. Pure: the time is an argument."""

from __future__ import annotations

import random

from aiflame.values import dataclass

_START_S = 2.0
"""A new process is not recorded before: it imports modules."""
_SAVED_S = 60.0
"""A budget that is not spent is kept for so long."""
_FIRST_COST_S = 1.0
"""Processor time that a window is taken to cost until one was measured."""
_WEIGHT = 0.2


class Budget:
    """Processor time that may be spent: it comes evenly, nothing in advance, and is spent as it is measured. So it holds from the first
    minute on, but for a window that costs more than was expected."""

    def __init__(self, rate: float, now_s: float) -> None:
        """`rate`: seconds of processor time for each second."""
        self._rate, self._at = rate, now_s
        self.cost_s = _FIRST_COST_S
        self.saved_s = 0.0
        self.spent_s = 0.0

    @property
    def _most(self) -> float:
        return max(self._rate * _SAVED_S, 2 * self.cost_s)

    def earn(self, now_s: float) -> None:
        self.saved_s = min(self.saved_s + (now_s - self._at) * self._rate, self._most)
        self._at = now_s

    def spend(self, seconds: float) -> None:
        self.saved_s -= seconds
        self.spent_s += seconds

    def learn(self, cost_s: float) -> None:
        """The cost of a window, adding it to the store included."""
        self.cost_s += _WEIGHT * (cost_s - self.cost_s)

    def allows(self, begun: int) -> bool:
        """Another window, while so many have begun whose cost is not known yet."""
        return self.saved_s >= self.cost_s * (begun + 1)


@dataclass(slots=True)
class _Turn:
    due_s: float
    recorded: bool


class Turns:
    """When each process is due, at random moments: on average `every_s` apart, and first within `every_s` of being found. Short times until
    the first are as likely as long ones (2 to 4 s as 100 to 200 s), so short programs have windows, and these lie anywhere in them."""

    def __init__(self, every_s: float, chance: random.Random) -> None:
        self._every_s, self._chance = every_s, chance
        self._turns: dict[str, _Turn] = {}

    def add(self, key: str, now_s: float) -> None:
        first_s = min(_START_S, self._every_s)
        self._turns[key] = _Turn(now_s + first_s * (self._every_s / first_s) ** self._chance.random(), recorded=False)

    def remove(self, key: str) -> None:
        self._turns.pop(key, None)

    def take(self, now_s: float) -> str | None:
        """The process whose turn it is; it is due again later. New ones and known ones wait in two lines: neither starves the other."""
        new = [key for key, turn in self._turns.items() if turn.due_s <= now_s and not turn.recorded]
        recorded = [key for key, turn in self._turns.items() if turn.due_s <= now_s and turn.recorded]
        lines = [line for line in (new, recorded) if line]
        if not lines:
            return None
        key = min(self._chance.choice(lines), key=lambda one: self._turns[one].due_s)
        self._turns[key] = _Turn(now_s + self._every_s * self._chance.uniform(0.5, 1.5), recorded=True)
        return key

    def later(self, key: str, now_s: float, seconds: float) -> None:
        """A process that cannot be recorded now is not due for a while."""
        if key in self._turns:
            self._turns[key].due_s = now_s + seconds
