"""Findings about the ranks that are in one profile, for its first screen; `aiflame ranks` looks at any number of them."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.analyze.finding import Finding
from aiflame.analyze.rank_clocks import Clocks
from aiflame.analyze.rank_facts import Partial, of_rank
from aiflame.analyze.rank_sources import OfProcesses
from aiflame.analyze.ranks import ranks
from aiflame.attribute.stacks import Tables
from aiflame.profile.meta import Meta
from aiflame.profile.rank_of import NONE, ranks_of

MOST = 16
MOST_ROWS = 1_000_000
"""Of kernels and samples: a first screen does not wait for more."""


def rank_findings(profile: Tables) -> Iterator[Finding]:
    """None where there are too many ranks, or too much of them. A profile's clocks are one already."""
    if not profile.has("ranks"):
        return
    processes = profile.table("processes").sort("process")
    numbers = ranks_of(processes, profile.table("ranks"))
    found = sorted({*numbers.tolist()} - {NONE})
    rows = sum(profile.scan(name).select(pl.len()).collect().item() for name in ("kernels", "cpu_samples"))
    if not 2 <= len(found) <= MOST or rows > MOST_ROWS:
        return
    partial = Partial()
    for rank in found:
        own = OfProcesses(profile, tuple(processes["process"].filter(pl.Series(numbers == rank)).to_list()))
        partial = partial.merged(Partial((of_rank(own, Meta(), rank, len(found)),)))
    yield from ranks(partial, Clocks()).findings
