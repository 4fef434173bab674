"""The block `timeline`: the data of the report's timeline, small enough for the page.

Slices are in lanes, and each begins where the one before it ended, or a little later: gaps and lengths are stored.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.timeline.tables import SliceKind, Timeline, TrackKind
from aiflame.attribute.timeline.whole import timeline as timeline_of
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.render.blocks import MOST as LARGEST
from aiflame.render.blocks import Values, block
from aiflame.render.colors import shade_of
from aiflame.render.report.timeline_counters import counters
from aiflame.render.report.timeline_lanes import Lanes, lanes
from aiflame.render.report.timeline_merge import Spans, merged_details_first
from aiflame.values import dataclass

MOST = 1_100_000
"""The most slices in a page, with a quarter more for layers: about 6 MB."""
SMALL = (SliceKind.CALL, SliceKind.OP)
"""Kinds that are left out if there are more slices."""
OF_FEW = (*SMALL, SliceKind.LAYER)
"""Kinds that are not even made if there are more kernels than that."""
DETAIL = (SliceKind.LAYER, SliceKind.FUNCTION, SliceKind.WAITING)
"""Kinds that are merged first if there are still too many."""
LONGEST_NAME = 400

SHOWN: Mapping[SliceKind, tuple[str, Kind]] = {
    SliceKind.STEP: ("steps", Kind.STEP),
    SliceKind.PHASE: ("phases", Kind.PHASE),
    SliceKind.LAYER: ("layers", Kind.LAYER),
    SliceKind.OP: ("ops", Kind.OP),
    SliceKind.CALL: ("calls", Kind.CPP),
    SliceKind.WAIT: ("waits", Kind.WAIT),
    SliceKind.KERNEL: ("kernels", Kind.GPU_KERNEL),
    SliceKind.COPY: ("copies", Kind.GPU_COPY),
    SliceKind.REGION: ("regions", Kind.REGION),
    SliceKind.MARK: ("marks", Kind.REGION),
    SliceKind.FUNCTION: ("functions", Kind.PYTHON),
    SliceKind.WAITING: ("waiting", Kind.WAIT),
    SliceKind.TRACED: ("traced calls", Kind.CPP),
    SliceKind.SCOPE: ("inside kernels", Kind.GPU_SCOPE),
}
"""The page's name for a kind of slices, and the kind of frame whose colours they have."""


def of_profile(profile: Tables) -> bytes:
    """The block of a profile. If there are very many kernels, slices that would be left out or merged completely are not made."""
    kernels = profile.scan("kernels").select(pl.len()).collect().item()
    return timeline_block(timeline_of(profile, without=frozenset(OF_FEW if kernels > MOST else ())))


def _sampled(slices: pl.DataFrame) -> list[tuple[int, int]]:
    """The time of sampled threads by kind of slice, for the legend: running and waiting add up to the whole."""
    kind, length = slices["kind"].to_numpy(), (slices["end_ns"] - slices["begin_ns"]).to_numpy()
    waiting = kind == SliceKind.WAITING
    outermost = (waiting | (kind == SliceKind.FUNCTION)) & (slices["depth"].to_numpy() == 0)
    waits = int(length[waiting].sum())
    return [(int(SliceKind.FUNCTION), int(length[outermost].sum()) - waits), (int(SliceKind.WAITING), waits)]


def timeline_block(timeline: Timeline, most: int = MOST, window: tuple[int, int] | None = None, counted: Timeline | None = None) -> bytes:
    """`window`: only slices in that time (ns), for a page that requests a zoomed stretch. `counted`: a timeline with the counters, if
    `timeline` has none."""
    slices, left_out = _fitting(_within(timeline, window), most)
    laid = lanes(timeline.tracks, slices)
    spans = _spans(laid, slices)
    detail = np.isin(laid.slices["kind"].to_numpy(), DETAIL)
    spans, detail_ns, bin_ns = merged_details_first(spans, detail, most) if len(slices) > most else (spans, 0, 0)
    if window is None:
        window = (int(spans.begin.min()), int(spans.end.max())) if len(spans.begin) else _counted(counted or timeline)
    origin, end = window
    names, name = _used(timeline.names, laid.slices["name"].to_numpy()[spans.row])
    facts = _facts(timeline.facts, laid.slices["facts"].to_numpy()[spans.row])
    count = np.bincount(spans.lane, minlength=len(laid.rows))
    points = counters(counted or timeline, origin, end)
    head = {
        "origin_ns": origin,
        "length_ns": end - origin,
        "kinds": {int(kind): {"label": label, "color": int(color)} for kind, (label, color) in SHOWN.items()},
        "track_kinds": {int(kind): kind.name.lower() for kind in TrackKind},
        "keys": facts.keys,
        "left_out": [SHOWN[kind][0] for kind in (*sorted(timeline.without), *left_out)],
        "merged": {"slices": len(slices), "detail_ns": detail_ns, "bin_ns": bin_ns} if detail_ns or bin_ns else None,
        "sampled": _sampled(slices),
        "counters": points.head,
        "thinned": points.thinned,
    }
    tracks = laid.tracks
    columns: dict[str, Values] = {
        "track.parent": tracks["parent"].to_numpy() + 1,
        "track.kind": tracks["kind"].to_numpy(),
        "track.number": tracks["number"].to_numpy(),
        "track.name": _clipped(tracks["name"]),
        "lane.track": laid.rows["track"].to_numpy(),
        "lane.kind": laid.rows["kind"].to_numpy(),
        "lane.level": laid.rows["level"].to_numpy(),
        "lane.count": count,
        "name": _clipped(names),
        "name.shade": np.array(shade_of(names), dtype=np.int64),
        "slice.gap": _gaps(spans, origin),
        "slice.length": spans.end - spans.begin,
        "slice.kind": laid.slices["kind"].to_numpy()[spans.row],
        "slice.name": name,
        "slice.facts": facts.set_of,
        "slice.step": laid.slices["step"].to_numpy()[spans.row].astype(np.int64) + 1,
        "slice.delay": laid.slices["delay"].to_numpy()[spans.row],
        **facts.columns,
        **points.columns,
    }
    if head["merged"]:
        columns |= {"slice.count": spans.count, "slice.idle": spans.end - spans.begin - spans.busy}
    return block(head, columns, frozenset({"fact.set", "slice.step"}))


def _counted(timeline: Timeline) -> tuple[int, int]:
    """The time that counters cover: a snapshot of memory has nothing else."""
    time = timeline.points["time_ns"].to_numpy()
    return (int(time.min()), int(time.max()) + 1) if len(time) else (0, 0)


def _within(timeline: Timeline, window: tuple[int, int] | None) -> pl.DataFrame:
    """The slices, with the time from call to kernel as `delay` (1 and more; 0: unknown). A slice from before its program is damaged."""
    slices = timeline.slices
    slices = slices.with_columns(delay=pl.Series(_delays(slices), dtype=pl.Int64))
    begins = timeline.tracks.filter(pl.col("begin_ns") > 0)["begin_ns"]
    first = begins.min() if len(begins) else None
    # A filter copies everything that it keeps, and there may be ten million slices.
    if isinstance(first, int) and (slices["begin_ns"] < first).any():
        slices = slices.filter(pl.col("begin_ns") >= first)
    if window is not None:
        slices = slices.filter(pl.col("end_ns") > window[0], pl.col("begin_ns") < window[1])
        slices = slices.with_columns(pl.col("begin_ns", "end_ns").clip(*window))
    shown = pl.Series([int(kind) for kind in SHOWN]).implode()
    return slices if slices["kind"].unique().is_in(shown).all() else slices.filter(pl.col("kind").is_in(shown))


def _delays(slices: pl.DataFrame) -> Ints:
    kind, flow = slices["kind"].to_numpy(), slices["flow"].to_numpy().astype(np.int64)
    begin = slices["begin_ns"].to_numpy()
    called = (kind == SliceKind.CALL) & (flow > 0)
    flows = slices["flows"].to_numpy().astype(np.int64)[called]
    arrow = np.repeat(flow[called] - (np.cumsum(flows) - flows), flows) + np.arange(flows.sum())
    called_ns = np.full(max(flow.max(initial=0), arrow.max(initial=0)) + 1, -1, dtype=np.int64)
    called_ns[arrow] = np.repeat(begin[called], flows)
    came = called_ns[flow]
    launched = np.isin(kind, (SliceKind.KERNEL, SliceKind.COPY)) & (flow > 0) & (came >= 0)
    return np.where(launched, np.maximum(begin - came, 0) + 1, 0)


def _fitting(slices: pl.DataFrame, most: int) -> tuple[pl.DataFrame, list[SliceKind]]:
    left_out = []
    for kind in SMALL:
        if len(slices) > most and (slices["kind"] == int(kind)).any():
            slices = slices.filter(pl.col("kind") != int(kind))
            left_out.append(kind)
    return slices, left_out


def _spans(laid: Lanes, slices: pl.DataFrame) -> Spans:
    begin, end = laid.slices["begin_ns"].to_numpy(), laid.slices["end_ns"].to_numpy()
    many = len(slices)
    return Spans(laid.lane, begin, end, np.arange(many, dtype=np.int32), np.ones(many, dtype=np.int32), end - begin)


def _gaps(spans: Spans, origin: int) -> Ints:
    """From the end of the one before it in its lane, or from the origin; encoded, since it may be negative."""
    new = np.append(True, spans.lane[1:] != spans.lane[:-1])[: len(spans.lane)]
    gap = spans.begin - np.where(new, origin, np.append(0, spans.end[:-1])[: len(spans.lane)])
    return np.asarray((gap << 1) ^ (gap >> 63), dtype=np.int64)


def _used(texts: pl.Series, row: NDArray[np.integer]) -> tuple[pl.Series, Ints]:
    used, which = np.unique(row, return_inverse=True)
    return texts.gather(used), which.astype(np.int64)


def _clipped(texts: pl.Series) -> pl.Series:
    return pl.Series([text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "…" for text in texts], dtype=pl.String)


@dataclass(frozen=True, slots=True)
class _Facts:
    keys: list[str]
    columns: dict[str, Values]
    set_of: Ints
    """The set of each slice; 0: none."""


def _facts(facts: pl.DataFrame, wanted: NDArray[np.integer]) -> _Facts:
    """The used sets, with new numbers from 1."""
    used, which = np.unique(wanted, return_inverse=True)
    new = np.cumsum(used > 0)
    rows = facts.join(
        pl.DataFrame({"set": used[used > 0], "now": new[used > 0]}, schema={"set": pl.UInt32, "now": pl.Int64}), on="set", how="inner"
    ).sort("now", maintain_order=True)
    keys = rows["key"].unique(maintain_order=True).to_list()
    texts = rows["text"].drop_nulls().unique(maintain_order=True)
    place = pl.DataFrame({"text": texts, "at": np.arange(1, len(texts) + 1)}, schema={"text": pl.String, "at": pl.Int64})
    at = rows.join(place, on="text", how="left", maintain_order="left")["at"].fill_null(0)
    columns: dict[str, Values] = {
        "fact.set": rows["now"].to_numpy(),
        "fact.key": rows["key"].replace_strict(keys, range(len(keys)), return_dtype=pl.Int64).to_numpy() if keys else np.zeros(0, np.int64),
        "fact.text": at.to_numpy(),
        "fact.number": rows["number"].fill_null(0).clip(upper_bound=LARGEST).to_numpy().astype(np.int64),
        "text": _clipped(texts),
    }
    return _Facts(keys, columns, (new * (used > 0))[which])
