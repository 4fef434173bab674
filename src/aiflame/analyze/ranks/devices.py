"""The activity of a rank on its devices: kernels and copies, and the causes of idle gaps."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.device.idle_causes import Cause as Gap
from aiflame.analyze.device.idle_causes import Threads, causes, sampled
from aiflame.analyze.device.occupancy import Device
from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.places import place_text, short_place
from aiflame.analyze.ranks.activity import ITEMS, SITES, Activity, Cause
from aiflame.analyze.spans import Spans, gaps, union
from aiflame.attribute.arrays.row_keys import packed
from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.meaning.families import COLLECTIVE
from aiflame.attribute.meaning.phases import NAMES, Phase
from aiflame.profile.schema.kinds import Kind

_CAUSES = {
    Gap.DEVICE: Cause.LAUNCH,
    Gap.DATA: Cause.DATA,
    Gap.SYNC: Cause.HOST,
    Gap.OPTIMIZER: Cause.HOST,
    Gap.LAUNCH: Cause.LAUNCH,
    Gap.HOST: Cause.HOST,
    Gap.UNKNOWN: Cause.UNKNOWN,
}
SURE = 2
"""In periods of the clock: in a longer gap, samples show whether the program was on a CPU."""


def on_devices(analysis: ProfileAnalysis) -> Activity:
    worked = analysis.sites["family"] != COLLECTIVE
    executions = analysis.work.executions
    kept = worked.to_numpy()[executions["site"].to_numpy()]
    items = [executions.filter(pl.Series(kept)).select(pl.col(name).cast(kind) for name, kind in _RAN.items())]
    sites = [_sites(analysis)]
    threads = Threads.of(analysis)
    for device in analysis.devices:
        rows, gap_sites = _gaps(analysis, threads, device)
        items.append(rows.with_columns(pl.col("site") + sum(map(len, sites))))
        sites.append(gap_sites)
    copies = (analysis.sites["kind"] == int(Kind.GPU_COPY)).to_numpy()[executions["site"].to_numpy()]
    moved = executions.filter(pl.Series(copies)).select(pl.col("start_ns", "end_ns").cast(pl.Int64))
    return Activity(
        "devices",
        union(*(np.concatenate([getattr(device.computing, side) for device in analysis.devices]) for side in ("begin", "end"))),
        union(moved["start_ns"].to_numpy(), moved["end_ns"].to_numpy()),
        pl.concat([part.rename({"start_ns": "begin_ns"}, strict=False).select(list(ITEMS)) for part in items]),
        pl.concat(sites),
    )


_RAN = {"start_ns": pl.Int64, "end_ns": pl.Int64, "site": pl.Int64, "step": pl.Int64}


def _sites(analysis: ProfileAnalysis) -> pl.DataFrame:
    """The SITES of executions."""
    copy = pl.col("kind") == int(Kind.GPU_COPY)
    phases = {name: int(phase) for phase, name in NAMES.items()}
    return analysis.sites.select(
        cause=pl.when(copy).then(int(Cause.COPY)).otherwise(int(Cause.COMPUTE)).cast(pl.Int64),
        phase=pl.col("phase").replace_strict(phases, default=0, return_dtype=pl.Int64),
        layer="layer",
        op="op",
        what="short",
    )


def _gaps(analysis: ProfileAnalysis, threads: Threads, device: Device) -> tuple[pl.DataFrame, pl.DataFrame]:
    """ITEMS and SITES of a device's idle time, with the phase and layer of the work that ended it, or data loading."""
    idle = gaps(device.every)
    ending = device.row[np.searchsorted(device.begin, idle.end)]
    launch = analysis.launches.rows(
        np.full(len(ending), device.process), analysis.work.executions["launch"].to_numpy()[ending].astype(np.int64)
    )
    gap, _ = causes(analysis.launches, threads, idle, launch)
    place = sampled(analysis.launches, threads, idle, launch)
    cause = np.array([int(_CAUSES.get(Gap(number), Cause.UNKNOWN)) if number else 0 for number in range(int(max(Gap)) + 1)])[gap]
    cause[(cause == Cause.HOST) & _on_no_cpu(analysis, idle, launch)] = Cause.WAIT
    ended = analysis.work.executions["site"].to_numpy().astype(np.int64)[ending]
    on_host = np.isin(cause, (Cause.HOST, Cause.WAIT, Cause.DATA))
    at = np.where(on_host & (place == 0), analysis.sites["place"].to_numpy().astype(np.int64)[ended], np.where(on_host, place, 0))
    first, which = _distinct(cause, ended, at)
    rows = pl.DataFrame(
        {
            "begin_ns": idle.begin,
            "end_ns": idle.end,
            "site": which,
            "step": analysis.work.executions["step"].cast(pl.Int64).to_numpy()[ending],
        },
        schema=ITEMS,
    )
    loading = pl.Series(cause[first] == Cause.DATA)
    of = _sites(analysis)[ended[first]].with_columns(
        cause=pl.Series(cause[first], dtype=pl.Int64),
        phase=pl.when(loading).then(int(Phase.DATA)).otherwise("phase"),
        layer=pl.when(loading).then(pl.lit("")).otherwise("layer"),
        op=pl.lit(""),
    )
    lines = analysis.places.rows[at[first]]
    what = [
        f"{function} ({short_place(place_text(file, line))})" if file else ""
        for file, line, function in lines.select("file", "line", "function").rows()
    ]
    return rows, of.with_columns(what=pl.Series(what, dtype=pl.String)).select(list(SITES))


def _on_no_cpu(analysis: ProfileAnalysis, idle: Spans, launch: Ints) -> NDArray[np.bool_]:
    """Gaps in which the thread that launched the next work, and the thread for which it works, were on a CPU for less than half of the
    time."""
    samples = analysis.profile.scan("cpu_samples").filter(pl.col("clock") == 0)
    columns = [pl.col(name).cast(pl.Int64) for name in ("process", "thread", "time_ns", "period_ns", "weight")]
    process, number, time_ns, period, weight = (column.to_numpy() for column in samples.select(columns).sort("time_ns").collect())
    on_cpu_ns = np.zeros(len(idle), dtype=np.int64)
    if not len(time_ns):
        return on_cpu_ns > 0
    thread, mother = (np.append(analysis.launches.threads[of], -1)[launch] for of in (analysis.launches.thread, analysis.launches.mother))
    for one in np.unique(process << 32 | number).tolist():
        own = (process << 32 | number) == one
        spent = np.concatenate([[0], np.cumsum(period[own] * weight[own])])
        inside = spent[np.searchsorted(time_ns[own], idle.end)] - spent[np.searchsorted(time_ns[own], idle.begin)]
        on_cpu_ns += np.where((thread == one) | (mother == one), inside, 0)
    length = idle.end - idle.begin
    return (length > SURE * int(period.max())) & (2 * on_cpu_ns < length)


def _distinct(*columns: Ints) -> tuple[Ints, Ints]:
    """The first place of each distinct row, and for each row the number of its distinct row."""
    _, first, which = np.unique(packed(list(columns), len(columns[0])), return_index=True, return_inverse=True)
    return first, which
