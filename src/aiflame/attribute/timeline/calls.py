"""Calls in which threads launch work on devices or wait for it, and the steps, phases, layers and ops around these calls."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.row_keys import by_time, packed
from aiflame.attribute.arrays.types import U32, Ints
from aiflame.attribute.devices.work import JOIN
from aiflame.attribute.meaning.events import LATEST
from aiflame.attribute.timeline.context import Contexts
from aiflame.attribute.timeline.spans import lanes, path_spans, pieces
from aiflame.attribute.timeline.stacks import Stacks
from aiflame.attribute.timeline.tables import SLICES, Making, Owners, SliceKind, TrackKind
from aiflame.attribute.timeline.work import Launched
from aiflame.profile.schema.enums import SyncKind
from aiflame.profile.tables.interface import Tables

OVERLAP = "Calls that overlap others"
"""Calls of a thread cannot overlap: where records say so, they are damaged."""
_WAITS = {SyncKind.EVENT: "[wait for an event]", SyncKind.STREAM: "[wait for a stream]", SyncKind.CONTEXT: "[wait for a device]"}
_ALIKE = ("process", "stack", "waiting", "ran", "records")
"""Calls with equal values in these columns have the same name and facts."""
_FACTS = ("stack", "ran", "records")
"""Facts of a call. `ran`: the first kernel or copy that it launched; `records`: how many it launched, if several."""


def calls(
    profile: Tables, making: Making, owners: Owners, contexts: Contexts, stacks: Stacks, launches: pl.DataFrame, launched: Launched
) -> None:
    """Puts every launch and every wait on the track of its thread. `launches`: JOIN, thread, stack, begin_ns, end_ns, row by row as in
    `contexts.meaning.launches`."""
    # There may be ten million: rows that are in order are not copied.
    begin = np.minimum(launches["begin_ns"].to_numpy(), LATEST).view(np.int64)
    end = np.minimum(launches["end_ns"].to_numpy(), LATEST).view(np.int64)
    np.maximum(begin, end, out=end)
    # Only threads with something to show get a track, in the order of threads.
    track = owners.threads(*(launches[name].to_numpy().astype(np.int64) for name in ("process", "thread"))).astype(np.int32)
    order = by_time(track, begin, end)
    columns = {each: contexts.meaning.launches[each].to_numpy() for each in ("step", "phase", "layer", "op")}
    if order is not None:
        track, begin, end = track[order], begin[order], end[order]
        columns = {each: column[order] for each, column in columns.items()}
    lane = lanes(track, begin, end)
    waits = _waits(profile, launches)
    shown = SliceKind.CALL not in making.without
    name, facts = _named(making, stacks, launches, launched, waits) if shown else (np.zeros(0, dtype=np.uint32),) * 2
    process = launches["process"].to_numpy()
    own = _own_tracks(making, process if order is None else process[order], track, lane)
    first = lane == 0
    depth = np.zeros(len(track), dtype=np.uint16)
    inside, outside = _waits_in_calls(waits, order, begin, end)
    for piece in pieces(first & contexts.cuts(np.where(first, track, -1), columns["step"], columns["phase"])):
        here = np.flatnonzero(first[piece]) + piece.start
        spans, depth[here] = path_spans(track[here], begin[here], end[here], contexts.levels(*(each[here] for each in columns.values())))
        at = piece if order is None else order[piece]
        rows = pl.DataFrame(schema=SLICES)
        if shown:
            rows = pl.DataFrame(
                {
                    "track": own[piece],
                    "begin_ns": begin[piece],
                    "end_ns": end[piece],
                    "depth": depth[piece],
                    "kind": np.full(piece.stop - piece.start, int(SliceKind.CALL), dtype=np.uint8),
                    "name": name[at],
                    "facts": facts[at],
                    "step": columns["step"][piece],
                    "flow": launched.first[at],
                    "flows": launched.arrows[at],
                    "launch": np.arange(at.start, at.stop, dtype=np.int32) if isinstance(at, slice) else at,
                }
            )
        within = inside.filter(pl.col("call").is_between(piece.start, piece.stop, closed="left"))
        call = within["call"].to_numpy()
        deeper = pl.Series(depth[call] + np.uint16(1))
        placed = within.with_columns(track=pl.Series(own[call]), depth=deeper, name=_wait_names(making, within))
        making.slices(contexts.named(spans), rows, placed)
    _alone(making, owners, outside)


def _own_tracks(making: Making, process: NDArray[np.uint32], track: NDArray[np.int32], lane: Ints) -> NDArray[np.int32]:
    """The track of each call: that of its thread, or another for calls that overlap others."""
    if not lane.any():
        return track
    own: NDArray[np.int32] = track.copy()
    for thread, number in np.unique(np.stack([track[lane > 0], lane[lane > 0]], axis=1), axis=0).tolist():
        of = int(process[np.searchsorted(track, thread)])
        own[(track == thread) & (lane == number)] = making.track(TrackKind.REGIONS, thread, of, OVERLAP)
    return own


def _waits(profile: Tables, launches: pl.DataFrame) -> pl.DataFrame:
    """process, kind, stream, start_ns, end_ns of all waits, with the row of their launch as `launch` (null: unknown)."""
    of_launch = launches.lazy().with_row_index("launch").select(*JOIN, "launch")
    waits = profile.scan("syncs").select(*JOIN, "kind", "stream", "start_ns", "end_ns")
    asked = of_launch.join(waits, on=JOIN, how="semi").unique(JOIN, keep="first", maintain_order=True)
    return (
        waits.join(asked, on=JOIN, how="left", maintain_order="left")
        .with_columns(pl.col("start_ns", "end_ns").clip(upper_bound=LATEST).cast(pl.Int64))
        .collect()
    )


def _named(making: Making, stacks: Stacks, launches: pl.DataFrame, launched: Launched, waits: pl.DataFrame) -> tuple[U32, U32]:
    """The name and the set of facts of each launch."""
    waiting = np.zeros(len(launches), dtype=np.bool_)
    waiting[waits["launch"].drop_nulls().to_numpy()] = True
    executed = np.where(launched.records > 0, launched.name.astype(np.int32), np.int32(-1))
    columns = [launches["process"].to_numpy(), launches["stack"].to_numpy(), waiting, executed, launched.records]
    key = packed(columns, len(launches))
    distinct_keys = pl.Series(key).unique().sort().to_numpy()
    which = np.searchsorted(distinct_keys, key).astype(np.uint32)
    first = np.zeros(len(distinct_keys), dtype=np.int64)
    first[which[::-1]] = np.arange(len(which))[::-1]
    distinct = pl.DataFrame([pl.Series(name, column[first]) for name, column in zip(_ALIKE, columns, strict=True)])
    process, stack = (distinct[name].to_numpy().astype(np.int64) for name in ("process", "stack"))
    fallback = np.where(distinct["waiting"].to_numpy(), "[wait]", np.where(distinct["ran"].to_numpy() >= 0, "[launch]", "[call]")).tolist()
    texts = [text or otherwise for text, otherwise in zip(stacks.calls(process, stack), fallback, strict=True)]
    sets = pl.DataFrame(
        {
            "stack": pl.Series(stacks.tops(process, stack), dtype=pl.List(pl.String)),
            "ran": pl.Series([making.name(row) if row >= 0 else "" for row in distinct["ran"].to_list()], dtype=pl.String),
            "records": distinct.select(pl.when(pl.col("records") > 1).then("records"))["records"],
        }
    )
    names, facts = (each.astype(np.uint32) for each in (making.names(texts), making.facts(sets, _FACTS)))
    return names[which], facts[which]


def _waits_in_calls(waits: pl.DataFrame, order: NDArray[np.int32] | None, begin: Ints, end: Ints) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Waits within their calls, with the place of the call in this `order` as `call`; and those whose call is unknown."""
    # Two waits in one call could overlap, but no driver reports that.
    inside_call = pl.col("launch").is_not_null() & pl.col("launch").is_first_distinct()
    inside, outside = waits.filter(inside_call), waits.filter(~inside_call)
    call = inside["launch"].to_numpy().astype(np.int64)
    if order is not None and len(call):
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        call = place[call].astype(np.int64)
    first = np.clip(inside["start_ns"].to_numpy(), begin[call], end[call])
    last = np.clip(inside["end_ns"].to_numpy(), first, end[call])
    kind = pl.lit(int(SliceKind.WAIT)).alias("slice")
    placed = inside.select(kind, sync="kind", call=pl.Series(call), begin_ns=pl.Series(first), end_ns=pl.Series(last)).sort("call")
    return placed.rename({"slice": "kind"}), outside


def _wait_names(making: Making, waits: pl.DataFrame) -> pl.Series:
    return pl.Series(making.names(_WAITS.get(kind, "[wait]") for kind in waits["sync"].to_list()), dtype=pl.UInt32)


def _alone(making: Making, owners: Owners, waits: pl.DataFrame) -> None:
    """Adds waits without a known call below their process."""
    waits = waits.sort("process", "start_ns", "end_ns")
    process = waits["process"].to_numpy().astype(np.int64)
    begin, end = waits["start_ns"].to_numpy(), np.maximum(waits["start_ns"].to_numpy(), waits["end_ns"].to_numpy())
    where = list(zip(process.tolist(), lanes(process, begin, end).tolist(), strict=True))
    tracks = {key: making.track(TrackKind.REGIONS, owners.process(key[0]), key[0], "Waits of unknown calls") for key in sorted(set(where))}
    making.slices(
        pl.DataFrame(
            {
                "track": pl.Series([tracks[key] for key in where], dtype=pl.UInt32),
                "begin_ns": begin,
                "end_ns": end,
                "depth": np.zeros(len(waits), dtype=np.int64),
                "kind": np.full(len(waits), int(SliceKind.WAIT)),
                "name": _wait_names(making, waits.rename({"kind": "sync"})),
            }
        )
    )
