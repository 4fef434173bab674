"""Times as people write them. Standard library alone."""

from __future__ import annotations

import re

from aiflame.cli.support.parser import UsageError

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_seconds(option: str, text: str, least: float = 0.0, most: float = float("inf")) -> float:
    """`20s`, `5m` → seconds, more than none, and between these."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)", text.strip().lower())
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not seconds:
        raise UsageError(f"{option} {text}: write it like 20s, 5m or 1h")
    if not least <= seconds <= most:
        raise UsageError(f"{option} {text}: write a time of {least:g} s to {most / 3600:g} h, like 10s, 5m, 2h or 7d")
    return seconds
