"""Findings about a device that does not compute: idle with its cause, waiting for copies, or for other devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from aiflame.analyze.amounts import amount
from aiflame.analyze.device.idle_causes import Cause
from aiflame.analyze.device.idle_gaps import IdleGaps
from aiflame.analyze.device.occupancy import STATES, Occupancy
from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.findings.gpu.launches import launch_bound
from aiflame.analyze.findings.gpu.waits import Waits
from aiflame.analyze.layer_groups import escaped
from aiflame.analyze.places import place_text, short_place
from aiflame.analyze.scope import in_scope
from aiflame.analyze.spans import union
from aiflame.attribute.devices.records import COPY_NAMES
from aiflame.attribute.meaning.families import COLLECTIVE
from aiflame.attribute.tree import BYTES, GPU_TIME
from aiflame.profile.schema.enums import CopyKind
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass

IDLE = 0.05
"""Smallest share of the time: below it, the device is almost always busy, and other changes promise more."""
COPYING = 0.05
COMMUNICATING = 0.1
"""Some communication is the price of several devices; a tenth of the time that nothing overlaps is worth reporting."""
GAIN_OF_COMMUNICATION = 0.5
"""Overlap can hide a part of it, if there is other work to do at that time."""
ITEM_OP = "aten::_local_scalar_dense"
"""The op that `.item()`, `float(tensor)`, `if tensor:` and the like run."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The time of devices that findings cover: steps, or the whole run."""

    label: str
    """The time that shares refer to, as sentences name it: `of each step`, `of the time`."""
    whole_ns: int
    share: dict[str, float]
    """The share of each state in `occupancy.STATES`."""
    steps: int
    """Number of steps; 0: the whole run."""

    @property
    def in_steps(self) -> bool:
        return self.steps > 0


def scope(devices: Sequence[Occupancy], analysis: ProfileAnalysis) -> Scope:
    inside = in_scope(analysis.profile, analysis.per_step)
    if not inside.is_empty():
        times = {state: int(inside[state].sum()) for state in STATES}
        label = "of each step"
    else:
        times = {state: sum(getattr(device, f"{state}_ns") for device in devices) for state in STATES}
        label = "of the time"
    whole = sum(times.values())
    return Scope(label, whole, {state: took / whole if whole else 0.0 for state, took in times.items()}, len(inside))


def idle(analysis: ProfileAnalysis, gaps: IdleGaps, of: Scope) -> Iterator[Finding]:
    """A finding for each cause that leaves a device idle for a large enough share."""
    groups = gaps.groups.with_columns(part=pl.col("step_share" if of.in_steps else "share"))
    yield from _data(groups, of)
    yield from _waited(analysis, groups, of)
    yield from _host(groups, of)
    yield from _launches(analysis, groups, of)


def copies(analysis: ProfileAnalysis, of: Scope) -> Iterator[Finding]:
    """Copies at whose end no kernel runs: only for these can kernels have waited."""
    part, by_site = _awaited_copies(analysis, of)
    if part < COPYING or by_site.is_empty():
        return
    most = (
        by_site.group_by("name", "file", "line")
        .agg(pl.col("awaited", "bytes").sum())
        .sort("awaited", "name", "file", "line", descending=[True, False, False, False])
        .row(0, named=True)
    )
    place = place_text(most["file"], most["line"])
    at = f" at {short_place(place)}" if place else ""
    sentence = f"The GPU waits for copies {part:.0%} {of.label}: most for {most['name']}{at}, {amount(most['bytes'], 'bytes')} in all"
    name = most["name"]
    view = Evidence("tables", BYTES.name, "code", f"^{escaped(name)}$", table="copies", place=place, column="short", names=(name,))
    yield Finding(sentence, part, view, "copies", part)


def _awaited_copies(analysis: ProfileAnalysis, of: Scope) -> tuple[float, pl.DataFrame]:
    """The share of time in which devices wait for copies, each moment counted once; and for each site its name, file, line, bytes, and
    `awaited`: the ns for which its copies kept devices waiting."""
    sites = analysis.scoped_sites.with_row_index("site").filter(pl.col("kind") == int(Kind.GPU_COPY), pl.col("launches") > 0)
    site = analysis.work.executions["site"].to_numpy()
    inside = in_scope(analysis.profile, analysis.per_step)
    waits, total = [pl.DataFrame(schema={"site": pl.UInt32, "awaited": pl.Int64})], 0
    for used in analysis.devices:
        here = np.isin(site[used.row], sites["site"].to_numpy())
        begin, end = used.begin[here], used.end[here]
        since = used.awaited_since(begin, end)
        waits.append(pl.DataFrame({"site": site[used.row][here], "awaited": end - since}, schema=waits[0].schema))
        spans = union(since, end)
        steps = inside.filter(process=used.process, device=used.name)
        total += int(spans.within(steps["begin_ns"].to_numpy(), steps["end_ns"].to_numpy()).sum()) if of.in_steps else spans.total()
    by_site = pl.concat(waits).group_by("site").agg(pl.col("awaited").sum())
    return total / max(of.whole_ns, 1), sites.select("site", "name", "file", "line", "bytes").join(by_site, on="site")


def communication(analysis: ProfileAnalysis, of: Scope) -> Iterator[Finding]:
    """Collectives that no other kernel overlaps."""
    part = of.share["communication"]
    if part < COMMUNICATING:
        return
    kernels = analysis.scoped_sites.filter(pl.col("family") == COLLECTIVE).group_by("name", "short").agg(pl.col("took").sum())
    name, short, _ = kernels.sort("took", "name", descending=[True, False]).row(0)
    sentence = f"The GPU does nothing but communicate {part:.0%} {of.label}: most of it is {short}"
    view = Evidence("flame", GPU_TIME.name, "family", f"^{COLLECTIVE}$", kernel=name)
    yield Finding(sentence, part, view, "communication", part * GAIN_OF_COMMUNICATION)


def _data(groups: pl.DataFrame, of: Scope) -> Iterator[Finding]:
    rows = _of(groups, Cause.DATA)
    part = float(rows["part"].sum())
    if part < IDLE:
        return
    place = _place(rows)
    at = f" at {short_place(place)}" if place else ""
    yield Finding(f"GPU idle {part:.0%} {of.label}, waiting for data{at}", part, _gaps(place, Cause.DATA), "idle-data", part)


def _waited(analysis: ProfileAnalysis, groups: pl.DataFrame, of: Scope) -> Iterator[Finding]:
    """Findings about host synchronization, one for each line."""
    lines = _of(groups, Cause.SYNC).group_by("file", "line", maintain_order=True).agg(pl.col("part", "count").sum())
    lines = lines.filter(pl.col("part") >= IDLE)
    if lines.is_empty():
        return
    waits = Waits.of(analysis)
    for file, line, part, count in lines.sort("part", descending=True).rows():
        place = place_text(file, line)
        kind = "device-synchronize" if waits.for_device(file, line) else "idle-sync"
        how = " (torch.cuda.synchronize() or the like)" if kind == "device-synchronize" else _how(analysis, file, line)
        at = f" at {short_place(place)}" if place else ""
        kernel = waits.kernel(file, line)
        mostly = f", mostly for {kernel}" if kernel else ""
        sentence = f"The program waits for the GPU{at}{how}, {count:,} times{mostly}, and leaves it idle {part:.0%} {of.label}"
        yield Finding(sentence, part, _gaps(place, Cause.SYNC), kind, part)


def _how(analysis: ProfileAnalysis, file: str, line: int) -> str:
    """The kind of call that waits, if the copies at that line show it."""
    here = analysis.sites.filter(
        (pl.col("file") == file) & (pl.col("line") == line) & (pl.col("name") == COPY_NAMES[CopyKind.DEVICE_TO_HOST])
    )
    if here.is_empty() or not file:
        return ""
    return " (.item() or the like)" if (here["op"] == ITEM_OP).any() else " (a copy to the host)"


def _host(groups: pl.DataFrame, of: Scope) -> Iterator[Finding]:
    rows = _of(groups, Cause.OPTIMIZER)
    part = float(rows["part"].sum())
    if part >= IDLE:
        place = _place(rows)
        at = f" ({short_place(place)})" if place else ""
        sentence = f"GPU idle {part:.0%} {of.label} while the optimizer's Python runs{at}"
        yield Finding(sentence, part, _gaps(place, Cause.OPTIMIZER), "idle-optimizer", part)
    lines = _of(groups, Cause.HOST).group_by("file", "line", maintain_order=True).agg(pl.col("part").sum())
    for file, line, part in lines.sort("part", descending=True).head(1).rows():
        if part >= IDLE:
            place = place_text(file, line)
            doing = f"the program runs {short_place(place)}" if place else "the program does other work"
            yield Finding(f"GPU idle {part:.0%} {of.label} while {doing}", part, _gaps(place, Cause.HOST), "idle-host", part)


def _launches(analysis: ProfileAnalysis, groups: pl.DataFrame, of: Scope) -> Iterator[Finding]:
    """Many kernels, each shorter than the time to launch it: the host cannot launch fast enough, or the device cannot start them fast
    enough."""
    rows = groups.filter(pl.col("cause").is_in([Cause.LAUNCH.name.lower(), Cause.DEVICE.name.lower()]))
    part = float(rows["part"].sum())
    kernels = analysis.scoped_sites.filter(pl.col("kind") == int(Kind.GPU_KERNEL))
    launches, took = int(kernels["launches"].sum()), int(kernels["took"].sum())
    if part < IDLE or not launches:
        return
    count = round(launches / of.steps) if of.in_steps else launches
    layers = rows.group_by("layer").agg(pl.col("part").sum()).sort("part", "layer", descending=[True, False])
    most = f", most in {layers['layer'][0]}" if layers["layer"][0] else ""
    short = f"{count:,} kernels of {amount(round(took / launches), 'ns')} on average"
    without = f"; without these gaps it would be {1 / (1 - min(part, 0.99)):.1f} times as fast at most"
    sentence = f"GPU idle {part:.0%} {of.label} between {short}: it waits for launches{most}{without}"
    place = _place(rows)
    yield Finding(sentence, part, _gaps(place, Cause.LAUNCH, Cause.DEVICE), launch_bound(analysis), part)


def _of(groups: pl.DataFrame, cause: Cause) -> pl.DataFrame:
    return groups.filter(pl.col("cause") == cause.name.lower())


def _place(rows: pl.DataFrame) -> str:
    """The program's own line with the largest part, if there is one."""
    placed = rows.filter(pl.col("file") != "").sort("own", "part", descending=[True, True])
    return place_text(placed["file"][0], placed["line"][0]) if len(placed) else ""


def _gaps(place: str, *causes: Cause) -> Evidence:
    names = tuple(cause.name.lower() for cause in causes)
    return Evidence("tables", GPU_TIME.name, "code", f"^({'|'.join(names)})$", table="idle", place=place, column="cause", names=names)
