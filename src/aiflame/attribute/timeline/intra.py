"""Records from inside kernels, for a timeline: for one launch of each kernel, a track for each warp of the CTAs that a multiprocessor ran.

If a launch has very many records, only the multiprocessors with the lowest numbers are shown. Work beside a warp has a track of its own.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.devices.inside import kernel_names
from aiflame.attribute.timeline.spans import lanes
from aiflame.attribute.timeline.tables import LATEST, Making, Owners, SliceKind, TrackKind
from aiflame.profile.tables.interface import Tables

MOST = 60_000
"""The most slices of a kernel."""
_CTA = ["process", "launch", "cta"]


def inside_kernels(profile: Tables, making: Making, owners: Owners) -> None:
    """Adds no track for a profile without such records."""
    if not profile.has("intra_spans") or SliceKind.SCOPE in making.without:
        return
    launches = profile.table("intra_launches").filter(pl.col("kept"))
    # The last launch: first launches run with cold caches.
    launches = launches.sort("process", "kernel", "launch").unique(["process", "kernel"], keep="last", maintain_order=True)
    kernels = profile.table("intra_kernels").join(kernel_names(profile).select("name", "short"), on="name", how="left")
    names = {(row["process"], row["kernel"]): row["short"] or row["name"] for row in kernels.iter_rows(named=True)}
    scopes = profile.table("intra_scopes")
    for launch in launches.iter_rows(named=True):
        process, number = launch["process"], launch["launch"]
        of = (pl.col("process") == process) & (pl.col("launch") == number)
        ctas = profile.scan("intra_ctas").filter(of).collect()
        spans = profile.scan("intra_spans").filter(of).collect().join(ctas.select(*_CTA, "sm"), on=_CTA)
        named_scopes = scopes.filter((pl.col("process") == process) & (pl.col("kernel") == launch["kernel"]))
        paths = profile.table("intra_paths").filter((pl.col("process") == process) & (pl.col("kernel") == launch["kernel"]))
        name = names.get((process, launch["kernel"]), "a kernel")
        shown = _fitting(spans.filter((pl.col("begin_ns") > 0) & (pl.col("end_ns") < LATEST)))
        if len(shown):
            _put(making, owners, process, f"Inside {name}, launch {launch['number']}", name, shown, ctas, named_scopes, paths)


def _fitting(spans: pl.DataFrame) -> pl.DataFrame:
    """Spans of the first multiprocessors, as many as fit, but at least one."""
    each = spans.group_by("sm").len().sort("sm").with_columns(reached=pl.col("len").cum_sum())
    kept = each.filter((pl.col("reached") <= MOST) | (pl.int_range(pl.len()) == 0))
    return spans.join(kept.select("sm"), on="sm", how="semi").head(4 * MOST)


def _put(
    making: Making,
    owners: Owners,
    process: int,
    title: str,
    kernel: str,
    spans: pl.DataFrame,
    ctas: pl.DataFrame,
    scopes: pl.DataFrame,
    paths: pl.DataFrame,
) -> None:
    above = making.track(TrackKind.INSIDE, owners.process(process), process, title)
    shown = ctas.join(spans.select("cta").unique(), on="cta", how="semi").sort("sm", "begin_ns", "cta")
    begin, end, sm = (shown[name].to_numpy().astype(np.int64) for name in ("begin_ns", "end_ns", "sm"))
    shown = shown.with_columns(slot=pl.Series(lanes(sm, begin, end)))
    clipped = [pl.col(name).clip(pl.col("cta_begin"), pl.col("cta_end")) for name in ("begin_ns", "end_ns")]
    placed = (
        spans.join(shown.select("cta", "slot", cta_begin="begin_ns", cta_end="end_ns"), on="cta")
        .with_columns(clipped)
        .join(paths.select("path", "beside"), on="path", how="left")
        .join(scopes.select("scope", "name", "file", "line"), on="scope", how="left")
        .with_columns(pl.col("beside").fill_null(False), name=pl.coalesce("name", pl.format("scope {}", "scope")))
        .sort("sm", "slot", "warp", "beside", "begin_ns", "depth")
    )
    rows = placed.select("sm", "slot", "warp", "beside").unique(maintain_order=True)
    several = dict(rows.group_by("sm").agg(pl.col("slot").max()).rows())
    tracks = [
        making.track(
            TrackKind.INSIDE,
            above,
            process,
            f"SM {sm}{f'.{slot}' if several[sm] else ''} warp {warp}{' beside' if beside else ''}",
        )
        for sm, slot, warp, beside in rows.rows()
    ]
    placed = placed.join(rows.with_columns(pl.Series("track", tracks)), on=["sm", "slot", "warp", "beside"], maintain_order="left")
    placed = placed.with_columns(facts=pl.Series(_facts(making, placed, kernel)), name=pl.Series(making.names(placed["name"])))
    placed = _apart(making, placed, above, process)
    columns = [pl.col("track", "begin_ns", "end_ns", "depth", "name", "facts"), pl.lit(int(SliceKind.SCOPE)).alias("kind")]
    making.slices(placed.select(columns))


def _facts(making: Making, spans: pl.DataFrame, kernel: str) -> Ints:
    """One set of facts for all spans of a scope in a warp of a CTA, because there are many."""
    alike = ["scope", "sm", "cta", "warp"]
    where = pl.when(pl.col("line") > 0).then(pl.format("{}:{}", "file", "line")).otherwise(pl.col("file").fill_null("")).alias("where")
    sets = spans.select(*alike, where, named="name").unique(alike, maintain_order=True)
    listed = sets.select(pl.lit(kernel).alias("kernel"), where="where", sm="sm", cta="cta", warp="warp")
    numbers = making.facts(listed, ("kernel", "where", "sm", "cta", "warp"))
    placed = spans.select(alike).join(sets.select(alike).with_columns(pl.Series("set", numbers)), on=alike, maintain_order="left")
    sets_of_spans: Ints = placed["set"].to_numpy()
    return sets_of_spans


def _apart(making: Making, spans: pl.DataFrame, above: int, process: int) -> pl.DataFrame:
    """Work beside a warp may overlap itself: then it needs several tracks."""
    if not spans["beside"].any():
        return spans
    track, begin, end = (spans[name].to_numpy().astype(np.int64) for name in ("track", "begin_ns", "end_ns"))
    lane = np.where(spans["beside"].to_numpy(), lanes(track, begin, end), 0)
    more: dict[tuple[int, int], int] = {}
    tracks = track.copy()
    for row in np.flatnonzero(lane).tolist():
        key = int(track[row]), int(lane[row])
        if key not in more:
            more[key] = making.track(TrackKind.INSIDE, above, process, making.name_of_track(key[0]))
        tracks[row] = more[key]
    depth = np.where(spans["beside"].to_numpy(), 0, spans["depth"].to_numpy())
    return spans.with_columns(track=pl.Series(tracks), depth=pl.Series(depth))
