"""Arrows between slices: from a call of a GPU's runtime to the work that it launched."""

from __future__ import annotations

import polars as pl

from aiflame.exchange.readers.perfetto.events import Events

ARROWS = {"event": pl.Int64(), "launch": pl.Int64(), "of_runtime": pl.Boolean(), "flow": pl.UInt64()}
"""Numbers of events: of the slice that an arrow leads to, and of the call; whether that is one of a GPU's runtime; the arrow's id."""
FIRST_NUMBER = 1 << 61
"""Correlation ids of calls that have none count from here on: far from those that profilers give."""


def flows_of(events: Events) -> pl.DataFrame:
    """event, flow, ends: the ends of all arrows of a trace."""
    schema = {"event": pl.Int64(), "flow": pl.UInt64(), "ends": pl.Boolean()}
    return pl.concat([pl.DataFrame(schema=schema), *(part.cast(schema) for part in events.flows)])  # type: ignore[arg-type]


def arrows(flows: pl.DataFrame, slices: pl.DataFrame) -> pl.DataFrame:
    """For each slice that arrows lead to, the call that it comes from: the last one of its flow that began before; one of a runtime counts
    before others.

    `slices`: event, end_event, begin, is_thread, launches (whether it is a call of a runtime that may launch work).
    """
    if flows.is_empty() or slices.is_empty():
        return pl.DataFrame(schema=ARROWS)
    columns = ("slice", "begin", "is_thread", "launches")
    named = slices.with_columns(slice=pl.col("event"))
    ended = named.filter(pl.col("end_event") >= 0).select(*columns, event="end_event")
    places = pl.concat([named.select(*columns, "event"), ended.select(*columns, "event")])
    steps = flows.join(places, on="event").sort("flow", "begin", "event")
    # Behind an event that terminates a flow, its id may be used again.
    steps = steps.with_columns(turn=(pl.col("ends").cast(pl.Int64).cum_sum() - pl.col("ends").cast(pl.Int64)).over("flow"))
    call = pl.when("is_thread").then("slice")
    of_runtime = pl.when("launches").then("slice")
    steps = steps.with_columns(
        call=call.shift(1).forward_fill().over("flow", "turn"), runtime=of_runtime.shift(1).forward_fill().over("flow", "turn")
    )
    return (
        steps.select(event="slice", launch=pl.coalesce("runtime", "call"), of_runtime=pl.col("runtime").is_not_null(), flow="flow")
        .filter(pl.col("launch").is_not_null() & (pl.col("launch") != pl.col("event")))
        .sort("event", "of_runtime", descending=[False, True], maintain_order=True)
        .unique("event", keep="first", maintain_order=True)
        .cast(ARROWS)  # type: ignore[arg-type]
    )
