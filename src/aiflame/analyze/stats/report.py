"""The row of a report in the table of reports."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.values import dataclass

NO_WORK = "no kernel or copy ran on a device in this profile"
"""Why most reports are empty."""


@dataclass(frozen=True, slots=True)
class Report:
    name: str
    """`tool.report`, such as `nsys.cuda-gpu-kern-sum`."""
    shows: str
    """One line for people."""
    theirs: str
    """Its name in the other tool."""
    compute: Callable[[Analysis], pl.DataFrame]
    """A frame whose columns end in their unit: `_ns`, `_bytes`, `_percent`, `_gb_s` (10^9 bytes a second); counts and texts have none."""
    empty: str = NO_WORK
    """Why the frame can be without rows, for people."""
    only_in_files: tuple[str, ...] = ()
    """Columns that a terminal leaves out, as others show the same to people."""
