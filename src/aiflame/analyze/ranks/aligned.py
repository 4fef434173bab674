"""Aligns the clocks of a profile of several hosts by the collectives of their ranks, if its calls were traced."""

from __future__ import annotations

import polars as pl

from aiflame.analyze.ranks.clock_estimate import Meetings, aligned
from aiflame.analyze.ranks.collectives import calls_that_meet
from aiflame.attribute.stacks.process_frames import with_ranks
from aiflame.profile.ranks.rank_numbers import named_ranks
from aiflame.profile.ranks.rank_of import NONE
from aiflame.profile.ranks.ranked import Ranked

DOUBTFUL_NS = 1_000_000
"""A larger remaining uncertainty becomes a note."""


def by_meetings(profile: Ranked) -> Ranked:
    """The profile with aligned clocks; unchanged if all ranks ran on one host."""
    if len({part.host for part in profile.parts}) < 2:
        return profile
    processes = with_ranks(profile.table("processes"), profile.table("ranks"))
    ranks = processes.filter(pl.col("rank") != NONE).select(pl.col("process").cast(pl.Int64), "rank")
    meeting_calls = calls_that_meet(profile, int(profile.scan("ranks").select(pl.col("size").max()).collect().item() or 0))
    # Each process's first rank that has collectives represents its other ranks.
    rows = meeting_calls.join(ranks, on="process", how="inner").filter(pl.col("process") == pl.col("process").min().over("rank"))
    number = rows.select(pl.struct("group", "number").rank("dense").cast(pl.Int64)).to_series().to_numpy()
    moved, clocks = aligned(profile, Meetings(rows["rank"].to_numpy(), number, rows["begin_ns"].to_numpy(), rows["end_ns"].to_numpy()))
    loose = [rank for rank, clock in clocks.items() if clock.residual_ns is None or clock.residual_ns > DOUBTFUL_NS]
    if not loose:
        return moved
    first = profile.parts[0].rank
    return moved.noted(
        f"{named_ranks(loose)}: the clock is put beside that of rank {first} by the time of day alone, "
        "to milliseconds: no traced calls allow better"
    )
