"""Findings about the ranks of one profile, for its first screen. `aiflame ranks` and the report's page handle any number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import polars as pl

from aiflame.analyze.finding import Finding
from aiflame.profile.tables.interface import Tables

if TYPE_CHECKING:
    from aiflame.analyze.ranks.comparison import Ranks

MOST = 16
MOST_ROWS = 1_000_000
"""The most kernels and samples: computing more would delay the first screen."""


def rank_findings(profile: Tables, ranks: Callable[[], Ranks]) -> Iterator[Finding]:
    """The findings of the ranks' comparison, which `ranks` computes; none for more than MOST ranks or MOST_ROWS rows."""
    if not profile.has("ranks"):
        return
    from aiflame.analyze.ranks.one_profile import rank_numbers  # takes longer to import than the findings of most profiles take

    if not 2 <= len(rank_numbers(profile)) <= MOST:
        return
    rows = sum(profile.scan(name).select(pl.len()).collect().item() for name in ("kernels", "cpu_samples"))
    if rows <= MOST_ROWS:
        yield from ranks().findings
