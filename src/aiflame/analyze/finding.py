"""A finding: one sentence about a cost in time, its number, and the view that shows it."""

from __future__ import annotations

from typing import Literal

from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Evidence:
    """The view that shows the finding; unused fields are ""."""

    view: Literal["flame", "kernels", "tables", "timeline", "scope", "ranks"]
    metric: str = ""
    by: str = ""
    """Grouping, as `--by` has it."""
    search: str = ""
    """A regular expression: for names of frames that the flame graph highlights, or for texts in rows that a table shows."""
    kernel: str = ""
    """The kernel's name as compiled."""
    table: str = ""
    """Name of a table (`table.TableOf.name`)."""
    place: str = ""
    """`file:line`, with its folders."""
    column: str = ""
    """The column of the table that contains `names`."""
    names: tuple[str, ...] = ()
    """The finding's rows: in the column, each has one of these names, or a name below one of them (`layers.3.attn` below `layers.3`)."""
    stall: str = ""
    """The kernel's most frequent stall reason."""


@dataclass(frozen=True, slots=True)
class Finding:
    sentence: str
    share: float
    """The number in the sentence: a share of GPU time, of elapsed time or of CPU time, as the sentence says."""
    view: Evidence
    kind: str = ""
    """The kind of finding: `idle`, `hot-kernel` …"""
    recoverable: float = 0.0
    """The largest share of the whole time that better code might win: findings are sorted by it."""
    of_whole_run: bool = False
    """Its number and its evidence cover the whole run, even if the scope is only some steps; the sentence says so."""
