"""Reads and writes lists of ranks as people write them: `0,7` or `0-3`. Standard library alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from aiflame.errors import AiflameError

_MOST = 1 << 24
"""More than any job has: a larger number is a mistake."""


def parse_ranks(text: str, option: str = "--ranks") -> frozenset[int]:
    """The ranks in a text of numbers and ranges, separated by commas."""
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,8})\s*(?:-\s*(\d{1,8})\s*)?", part)
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else 0
        if match is None or not first <= last < _MOST:
            raise AiflameError(f"{option} {text}: name ranks like 0,7 or 0-3")
        numbers.update(range(first, last + 1))
    return frozenset(numbers)


def write_ranks(ranks: Iterable[int]) -> str:
    """`0-3,7`: the shortest text from which `parse_ranks` reads these ranks."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def named_ranks(ranks: Collection[int]) -> str:
    """`rank 3`, `ranks 0-3,7`."""
    return f"rank{'s' if len(ranks) > 1 else ''} {write_ranks(ranks)}"
