"""Findings about the ranks of one profile, for its first screen. `aiflame ranks` and the report's page look at any number of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from aiflame.analyze.finding import Finding
from aiflame.analyze.ranks.comparison import Ranks
from aiflame.analyze.ranks.one_profile import rank_numbers
from aiflame.profile.tables.interface import Tables

MOST = 16
MOST_ROWS = 1_000_000
"""The most kernels and samples: a first screen does not wait for more."""


def rank_findings(profile: Tables, ranks: Callable[[], Ranks]) -> Iterator[Finding]:
    """The findings of the ranks' comparison, which `ranks` computes; none for more than MOST ranks or MOST_ROWS rows."""
    if not 2 <= len(rank_numbers(profile)) <= MOST:
        return
    rows = sum(profile.scan(name).select(pl.len()).collect().item() for name in ("kernels", "cpu_samples"))
    if rows <= MOST_ROWS:
        yield from ranks().findings
