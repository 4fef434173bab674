"""A finding: one sentence about a cost in time, its number, and where to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Evidence:
    """The view that proves the finding; unused fields are ""."""

    view: Literal["flame", "kernels", "tables", "timeline", "scope", "ranks"]
    metric: str = ""
    by: str = ""
    """Grouping, as `--by` has it."""
    search: str = ""
    """A regular expression: for names of frames that the flame graph highlights, or for texts of rows that a table shows."""
    kernel: str = ""
    """The kernel's name as compiled."""
    table: str = ""
    """Name of a table (`table.TableOf.name`)."""
    place: str = ""
    """`file:line`, with its folders."""
    column: str = ""
    """The table's column in which `names` are looked for."""
    names: tuple[str, ...] = ()
    """The finding's rows: each has one of these names in the column, or a name below one of them (`layers.3.attn` below `layers.3`)."""
    stall: str = ""
    """The reason for which the kernel's warps wait most."""


@dataclass(frozen=True, slots=True)
class Finding:
    sentence: str
    share: float
    """The number in the sentence: of GPU time, of the time, of CPU time, as the sentence says."""
    view: Evidence
    kind: str = ""
    """The sort of finding: `idle`, `hot-kernel` …"""
    recoverable: float = 0.0
    """The largest share of the whole time that better code might win: findings come in this order."""
    of_whole_run: bool = False
    """Its number and its evidence are those of the whole run, also where steps are the scope; the sentence says so."""
