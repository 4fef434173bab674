"""The launches of the scene `shuffled`, in order: a caller, a line, a native place and a depth."""

from __future__ import annotations

import random

Way = tuple[int, int, int, int]

_ROUND: list[Way] = [(way % 2, way // 2 % 2, way // 4 % 2, way // 8) for way in random.Random(7).choices(range(24), k=200)]


def ways() -> list[Way]:
    """The same round again and again, and now and then another way than the next one due."""
    other = random.Random(8)
    return [other.choice(_ROUND) if number % 400 == 399 else way for number, way in enumerate(_ROUND * 12)]
