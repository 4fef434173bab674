"""What threads did with devices: the calls that give them work or wait for them, and the steps, phases, layers and ops around these."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.gpu_work import JOIN
from aiflame.attribute.items import LATEST
from aiflame.attribute.stacks import Tables
from aiflame.attribute.timeline_context import Contexts
from aiflame.attribute.timeline_spans import lanes, path_spans
from aiflame.attribute.timeline_stacks import Stacks
from aiflame.attribute.timeline_tables import Making, Owners, SliceKind, TrackKind
from aiflame.attribute.timeline_work import Launched
from aiflame.profile.codes import SyncKind

Ints = NDArray[np.int64]
OVERLAP = "Calls that overlap others"
"""A thread makes one call after the other: where records say otherwise, they are damaged."""
_WAITS = {SyncKind.EVENT: "[wait for an event]", SyncKind.STREAM: "[wait for a stream]", SyncKind.CONTEXT: "[wait for a device]"}
_FACTS = ("stack", "ran", "records")
"""Of a call. `ran`: the first kernel or copy that it had run, `records`: how many, if there are several."""


def calls(
    profile: Tables, making: Making, owners: Owners, contexts: Contexts, stacks: Stacks, launches: pl.DataFrame, launched: Launched
) -> None:
    """Puts every launch and every wait on the track of its thread. `launches`: JOIN, thread, stack, begin_ns, end_ns, row by row as in
    `contexts.meaning.launches`."""
    process, thread = (launches[name].to_numpy().astype(np.int64) for name in ("process", "thread"))
    begin = np.minimum(launches["begin_ns"].to_numpy(), LATEST).astype(np.int64)
    end = np.maximum(np.minimum(launches["end_ns"].to_numpy(), LATEST).astype(np.int64), begin)
    # Threads are told when they have something to show, in their own order.
    track = owners.threads(process, thread)
    order = np.lexsort((end, begin, track))
    track, begin, end = track[order], begin[order], end[order]
    lane = lanes(track, begin, end)
    waits = _waits(profile, launches)
    name, facts = _named(making, stacks, launches, launched, waits)
    columns = {each: contexts.meaning.launches[each].to_numpy()[order] for each in ("step", "phase", "layer", "op")}
    first = np.flatnonzero(lane == 0)
    spans, own = path_spans(track[first], begin[first], end[first], contexts.levels(*(column[first] for column in columns.values())))
    making.slices(contexts.named(spans))
    depth = np.zeros(len(order), dtype=np.int64)
    depth[first] = own
    for rest in np.unique(np.stack([track[lane > 0], lane[lane > 0]], axis=1), axis=0).tolist():
        of = process[order[np.searchsorted(track, rest[0])]]
        track = np.where((track == rest[0]) & (lane == rest[1]), making.track(TrackKind.REGIONS, rest[0], int(of), OVERLAP), track)
    rows = pl.DataFrame(
        {
            "track": track,
            "begin_ns": begin,
            "end_ns": end,
            "depth": depth,
            "kind": np.full(len(order), int(SliceKind.CALL), dtype=np.uint8),
            "name": name[order],
            "facts": facts[order],
            "step": columns["step"],
            "flow": launched.first[order],
            "flows": launched.arrows[order],
        }
    )
    making.slices(rows)
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    _put_waits(making, owners, waits, rows, back)


def _waits(profile: Tables, launches: pl.DataFrame) -> pl.DataFrame:
    """process, kind, stream, start_ns, end_ns of all waits, with the row of their launch as `launch` (null: not known)."""
    of_launch = launches.lazy().with_row_index("launch").select(*JOIN, "launch")
    waits = profile.scan("syncs").select(*JOIN, "kind", "stream", "start_ns", "end_ns")
    asked = of_launch.join(waits, on=JOIN, how="semi").unique(JOIN, keep="first", maintain_order=True)
    return (
        waits.join(asked, on=JOIN, how="left", maintain_order="left")
        .with_columns(pl.col("start_ns", "end_ns").clip(upper_bound=LATEST).cast(pl.Int64))
        .collect()
    )


def _named(making: Making, stacks: Stacks, launches: pl.DataFrame, launched: Launched, waits: pl.DataFrame) -> tuple[Ints, Ints]:
    """The name and the set of facts of each launch."""
    waiting = np.zeros(len(launches), dtype=np.bool_)
    waiting[waits["launch"].drop_nulls().to_numpy()] = True
    ran = np.where(launched.records > 0, launched.name, -1)
    key = launches.select("process", "stack").with_columns(
        waiting=pl.Series(waiting), ran=pl.Series(ran), records=pl.Series(launched.records.astype(np.uint64))
    )
    distinct = key.lazy().unique().sort(key.columns).collect().with_row_index("alike")
    which = key.join(distinct, on=key.columns, how="left", maintain_order="left")["alike"].to_numpy()
    process, stack = (distinct[name].to_numpy().astype(np.int64) for name in ("process", "stack"))
    fallback = np.where(distinct["waiting"].to_numpy(), "[wait]", np.where(distinct["ran"].to_numpy() >= 0, "[launch]", "[call]")).tolist()
    texts = [told or otherwise for told, otherwise in zip(stacks.calls(process, stack), fallback, strict=True)]
    sets = pl.DataFrame(
        {
            "stack": pl.Series(stacks.tops(process, stack), dtype=pl.List(pl.String)),
            "ran": pl.Series([making.name(row) if row >= 0 else "" for row in distinct["ran"].to_list()], dtype=pl.String),
            "records": distinct.select(pl.when(pl.col("records") > 1).then("records"))["records"],
        }
    )
    return making.names(texts)[which], making.facts(sets, _FACTS)[which]


def _put_waits(making: Making, owners: Owners, waits: pl.DataFrame, calls: pl.DataFrame, place: Ints) -> None:
    """Inside of their calls; those whose call is not known on their process."""
    known = waits.filter(pl.col("launch").is_not_null())
    around = calls[place[known["launch"].to_numpy()]]
    begin, end = around["begin_ns"].to_numpy(), around["end_ns"].to_numpy()
    first = np.clip(known["start_ns"].to_numpy(), begin, end)
    # Two waits of one call, which no driver tells of, must not overlap.
    later = np.append(False, np.diff(known["launch"].to_numpy()) == 0) if len(known) else np.zeros(0, dtype=np.bool_)
    alone = ~later
    depth = around["depth"].to_numpy().astype(np.int64) + 1
    inside = pl.DataFrame(
        {
            "track": around["track"],
            "begin_ns": first,
            "end_ns": np.clip(known["end_ns"].to_numpy(), first, end),
            "depth": depth,
            "name": making.names(_WAITS.get(kind, "[wait]") for kind in known["kind"].to_list()),
        }
    ).filter(pl.Series(alone))
    rest = pl.concat(
        [waits.filter(pl.col("launch").is_null()), known.filter(pl.Series(~alone)).with_columns(pl.col("launch").cast(pl.UInt32))]
    )
    rest = rest.sort("process", "start_ns", "end_ns")
    process = rest["process"].to_numpy().astype(np.int64)
    begin, end = rest["start_ns"].to_numpy(), np.maximum(rest["start_ns"].to_numpy(), rest["end_ns"].to_numpy())
    lane = lanes(process, begin, end)
    tracks = {
        (one, number): making.track(TrackKind.REGIONS, owners.process(one), one, "Waits of unknown calls")
        for one, number in sorted(set(zip(process.tolist(), lane.tolist(), strict=True)))
    }
    outside = pl.DataFrame(
        {
            "track": np.array([tracks[key] for key in zip(process.tolist(), lane.tolist(), strict=True)], dtype=np.int64),
            "begin_ns": begin,
            "end_ns": end,
            "depth": np.zeros(len(rest), dtype=np.int64),
            "name": making.names(_WAITS.get(kind, "[wait]") for kind in rest["kind"].to_list()),
        }
    )
    for found in (inside, outside):
        making.slices(found.with_columns(kind=pl.lit(int(SliceKind.WAIT))))
