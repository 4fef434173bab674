"""A report: its name, what it shows, and the function that computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from aiflame.attribute.analysis import Analysis

NO_WORK = "no kernel or copy ran on a device in this profile"
"""Why most reports are empty."""


@dataclass(frozen=True, slots=True)
class Report:
    name: str
    """`tool.report`, such as `nsys.cuda-gpu-kern-sum`."""
    shows: str
    """One line for people."""
    theirs: str
    """What the other tool calls it."""
    compute: Callable[[Analysis], pl.DataFrame]
    """A frame whose columns end in their unit: `_ns`, `_bytes`, `_percent`, `_gb_s` (10^9 bytes a second); counts and texts have none."""
    empty: str = NO_WORK
    """Why the frame can be without rows, for people."""
