"""Idle gaps of devices by their cause and place, and the longest single gaps.

A gap is between two stretches of time in which work ran on a device; `idle_causes` finds its cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.device.device_join import DeviceJoin
from aiflame.analyze.device.idle_causes import SAYS, Cause, Threads, causes, places_of_calls, sampled
from aiflame.analyze.device.occupancy import Device
from aiflame.analyze.layer_groups import collapsed
from aiflame.analyze.scope import in_scope
from aiflame.analyze.spans import Spans, gaps, union
from aiflame.attribute.arrays.chunks import PIECE
from aiflame.attribute.arrays.row_keys import packed
from aiflame.attribute.arrays.types import Ints
from aiflame.values import dataclass

LONGEST = 200
"""The number of single gaps that are listed."""
GAPS = {
    "process": pl.Int64,
    "device": pl.String,
    "begin_ns": pl.Int64,
    "length": pl.Int64,
    "says": pl.String,
    "file": pl.String,
    "line": pl.Int64,
    "step": pl.Int64,  # null: in no step
}
GROUPS = {
    "cause": pl.String,
    "says": pl.String,
    "file": pl.String,
    "line": pl.Int64,
    "function": pl.String,
    "own": pl.Boolean,  # the file belongs to the program
    "phase": pl.String,
    "layer": pl.String,
    "count": pl.Int64,
    "total": pl.Int64,
    "median": pl.Int64,
    "longest": pl.Int64,
    "share": pl.Float64,
    "step_share": pl.Float64,
}
_OF_PHASES = [int(cause) for cause in (Cause.DEVICE, Cause.LAUNCH, Cause.UNKNOWN)]
"""Causes whose gaps are grouped by phase, not by place, because they occur everywhere in the code."""


@dataclass(frozen=True, slots=True)
class IdleGaps:
    groups: pl.DataFrame
    """GROUPS: gaps of equal cause at one place, those with the longest total first. `file` and `line`: the thread's place during the gap,
    by its samples, otherwise the launch that ended the gap. `layer`: that of most of the time (in the steps of the scope), with indices as
    `*`. `share`: of the time from the first to the last activity of the devices; `step_share`: the part in the steps of the scope, relative
    to these steps' time."""
    longest: pl.DataFrame
    """GAPS: the LONGEST longest gaps."""
    step_time: int
    """The time of the steps in the scope, on all devices; 0 if there are none."""


def idle_gaps(join: DeviceJoin, used: Sequence[Device], steps: pl.DataFrame) -> IdleGaps:
    """`steps`: `occupancy.per_step`."""
    threads = Threads.of(join)
    repeating = in_scope(join.profile, steps)
    inside = [_steady(repeating, device) for device in used]
    all_gaps = _AllGaps.of(piece for device, spans in zip(used, inside, strict=True) for piece in _of_device(join, threads, device, spans))
    whole = sum(int(device.every.end[-1] - device.every.begin[0]) for device in used)
    step_time = sum(spans.total() for spans in inside)
    return IdleGaps(_grouped(join, all_gaps, whole, step_time), _longest(join, all_gaps.longest, steps), step_time)


def _steady(steps: pl.DataFrame, device: Device) -> Spans:
    """The time of a device in these steps."""
    own = steps.filter((pl.col("process") == device.process) & (pl.col("device") == device.name))
    return union(own["begin_ns"].to_numpy(), own["end_ns"].to_numpy())


_EACH = {
    "begin_ns": pl.Int64,
    "length": pl.Int64,
    "cause": pl.Int8,
    "place": pl.Int32,  # row of `places.rows` by which gaps of one cause are grouped, 0: none
    "ended_at": pl.Int32,  # place of the launch that ended it
    "site": pl.Int32,  # site of the work that ended it
    "of_phase": pl.Int32,  # the first site of its phase, for causes whose gaps are grouped by phase; else -1
    "sampled": pl.Int32,  # place with most samples of the thread during the gap, 0: none
    "steady": pl.Boolean,  # in a step of the scope
}
"""The columns of each single gap; there may be ten million gaps."""
_KEY = ["cause", "place", "of_phase"]


@dataclass(frozen=True, slots=True)
class _AllGaps:
    """Sums over all gaps, and the longest single ones."""

    parts: pl.DataFrame
    """_KEY, ended_at, site, sampled, count, total, longest, in_steps: gaps with equal columns, merged"""
    medians: pl.DataFrame
    """_KEY, median"""
    longest: pl.DataFrame
    """_EACH, process, device: the LONGEST longest gaps"""

    @staticmethod
    def of(pieces: Iterable[pl.DataFrame]) -> _AllGaps:
        """`pieces`: _EACH, process, device"""
        length = pl.col("length")
        sums = {"total": length.sum(), "longest": length.max(), "in_steps": length.filter("steady").sum()}
        alike = [*_KEY, "ended_at", "site", "sampled"]
        none = pl.DataFrame(schema=_EACH | {"process": pl.Int64, "device": pl.String})
        lengths: list[tuple[NDArray[np.uint32], Ints]] = []
        keys = none.select(_KEY)
        parts = [none.group_by(alike).agg(count=pl.len().cast(pl.Int64), **sums)]
        longest = none
        for piece in pieces:
            parts.append(piece.group_by(alike).agg(count=pl.len().cast(pl.Int64), **sums))
            keys, number = _numbered(keys, piece)
            lengths.append((number, piece["length"].to_numpy()))
            longest = pl.concat([longest, piece]).top_k(LONGEST, by=["length", pl.col("begin_ns").neg()])
        together = {"count": pl.col("count").sum(), "total": pl.col("total").sum()}
        together |= {"longest": pl.col("longest").max(), "in_steps": pl.col("in_steps").sum()}
        medians = keys.with_columns(median=_medians(lengths, len(keys)))
        return _AllGaps(pl.concat(parts).group_by(alike).agg(**together), medians, longest)


def _numbered(keys: pl.DataFrame, piece: pl.DataFrame) -> tuple[pl.DataFrame, NDArray[np.uint32]]:
    """All keys (_KEY) so far and in this piece, older ones first; and the number of each row's key."""
    packs = packed([piece[name].to_numpy() for name in _KEY], len(piece))
    each = pl.Series(packs).unique().sort().to_numpy()
    at = np.searchsorted(each, packs)
    first = np.zeros(len(each), dtype=np.int64)
    first[at[::-1]] = np.arange(len(piece))[::-1]
    new = piece.select(_KEY)[first]
    keys = pl.concat([keys, new.join(keys, on=_KEY, how="anti", maintain_order="left")])
    number = new.join(keys.with_row_index("number"), on=_KEY, how="left", maintain_order="left")["number"].to_numpy()
    return keys, number[at]


def _medians(lengths: Sequence[tuple[NDArray[np.uint32], Ints]], keys: int) -> pl.Series:
    """The median length of each key; `keys`: number of keys."""
    if not lengths:
        return pl.Series(dtype=pl.Int64)
    number, length = (np.concatenate(each) for each in zip(*lengths, strict=True))
    bits = int(length.max(initial=0)).bit_length()
    if keys.bit_length() + bits < 63:
        length = np.sort(number.astype(np.int64) << bits | length) & ((1 << bits) - 1)
    else:
        length = length[np.lexsort((length, number))]
    many = np.bincount(number, minlength=keys)
    first = np.cumsum(many) - many
    medians: pl.Series = pl.Series((length[first + (many - 1) // 2] + length[first + many // 2]) / 2).round().cast(pl.Int64)
    return medians


def _of_device(join: DeviceJoin, threads: Threads, device: Device, inside: Spans) -> Iterator[pl.DataFrame]:
    """_EACH, process, device: in pieces"""
    every = gaps(device.every)
    ended_at, of_phase = join.sites["place"].cast(pl.Int32).to_numpy(), _first_of_phase(join)
    number, site_of = (join.work.executions[name].to_numpy() for name in ("launch", "site"))
    for begin in range(0, len(every), PIECE):
        idle = Spans(every.begin[begin : begin + PIECE], every.end[begin : begin + PIECE])
        ending = device.row[np.searchsorted(device.begin, idle.end)]
        launch = join.launches.rows(np.full(len(ending), device.process), number[ending].astype(np.int64))
        site = site_of[ending]
        cause, call = causes(join.launches, threads, idle, launch)
        everywhere = np.isin(cause, _OF_PHASES)
        place = np.where(everywhere, np.int32(0), ended_at[site])
        waited = cause == Cause.SYNC
        place[waited] = places_of_calls(join, call[waited])
        length = idle.end - idle.begin
        each = {
            "begin_ns": idle.begin,
            "length": length,
            "cause": cause,
            "place": place,
            "ended_at": ended_at[site],
            "site": site.astype(np.int32),
            "of_phase": np.where(everywhere, of_phase[site], np.int32(-1)),
            "sampled": sampled(join.launches, threads, idle, launch).astype(np.int32),
            "steady": inside.within(idle.begin, idle.end) * 2 > length,
        }
        yield pl.DataFrame(each, schema=_EACH).with_columns(
            pl.lit(device.process, pl.Int64).alias("process"), pl.lit(device.name, pl.String).alias("device")
        )


def _first_of_phase(join: DeviceJoin) -> NDArray[np.int32]:
    """The first site of each site's phase."""
    rows = join.sites.select("phase").with_row_index("site")
    return rows.select(pl.col("site").first().over("phase").cast(pl.Int32)).to_series().to_numpy()


def _grouped(join: DeviceJoin, all_gaps: _AllGaps, whole: int, step_time: int) -> pl.DataFrame:
    key = _KEY
    of_sites = join.sites.select("phase", layer=collapsed(pl.col("layer"))).with_row_index("site").cast({"site": pl.Int32})
    parts = all_gaps.parts.join(of_sites, on="site", how="left", maintain_order="left")
    rows = parts.group_by(key).agg(pl.col("count", "total", "in_steps").sum(), pl.col("longest").max()).join(all_gaps.medians, on=key)
    for column in ("sampled", "ended_at", "layer", "phase"):
        rows = rows.join(_most(parts, key, column), on=key, how="left")
    at = pl.when(pl.col("cause") == int(Cause.SYNC)).then("place").when(pl.col("sampled") > 0).then("sampled").otherwise("ended_at")
    place = rows.select(at.fill_null(0)).to_series()
    names = {int(cause): cause.name.lower() for cause in Cause}
    return (
        rows.hstack(join.places.rows[place])
        .with_columns(
            pl.col("layer", "phase").fill_null(""),
            cause=pl.col("cause").replace_strict(names, return_dtype=pl.String),
            says=_says(),
            share=pl.col("total") / max(whole, 1),
            step_share=pl.col("in_steps") / max(step_time, 1),
        )
        .sort("total", "cause", "file", "line", "phase", descending=[True, *[False] * 4])
        .select(pl.col(name).cast(kind) for name, kind in GROUPS.items())
    )


def _most(parts: pl.DataFrame, key: list[str], by: str) -> pl.DataFrame:
    """For each group, the value of column `by` with the most time; with time in the steps of the scope if the group has any, so that
    start-up is not named for them. For `sampled`, among rows that have a sample."""
    rows = parts.filter(pl.col("sampled") > 0) if by == "sampled" else parts
    summed = rows.group_by(*key, by).agg(pl.col("in_steps", "total").sum()).sort("in_steps", "total", by, descending=[True, True, False])
    return summed.unique(key, keep="first", maintain_order=True).select(*key, by)


def _longest(join: DeviceJoin, rows: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    rows = rows.sort("length", "begin_ns", descending=[True, False])
    at = pl.when(pl.col("sampled") > 0).then("sampled").when(pl.col("place") > 0).then("place").otherwise("ended_at")
    place = rows.select(at).to_series()
    spans = steps.select("process", "device", "begin_ns", "end_ns", "step").sort("begin_ns")
    in_steps = (
        rows.with_row_index("row")
        .sort("begin_ns")
        .join_asof(spans, on="begin_ns", by=["process", "device"], strategy="backward", check_sortedness=False)
        .sort("row")
        .with_columns(step=pl.when(pl.col("begin_ns") < pl.col("end_ns")).then("step"))
    )
    shown = rows.hstack(join.places.rows[place].select("file", "line")).with_columns(in_steps["step"], says=_says())
    return shown.select(pl.col(name).cast(kind) for name, kind in GAPS.items())


def _says() -> pl.Expr:
    return pl.col("cause").replace_strict({int(cause): text for cause, text in SAYS.items()}, return_dtype=pl.String)
