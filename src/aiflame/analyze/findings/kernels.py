"""Findings about kernels: the kind of work that takes the GPU's time, its layers, and its stalls."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.device.stalls import by_reason, hottest_place
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.layer_groups import collapsed, escaped, search
from aiflame.analyze.places import place_text, short_place
from aiflame.attribute.meaning.families import COLLECTIVE
from aiflame.attribute.tree import GPU_STALLS, GPU_TIME
from aiflame.profile.schema.kinds import Kind
from aiflame.resolve.device.stall_reasons import meaning

HOT_GROUP = 0.15
"""Smallest share of GPU time: some group is always the largest, and with less than this, making it twice as fast would win less than a
twelfth."""
GAIN_OF_GROUP = 0.3
"""The share of a group's time that is likely to be won. It is small because library kernels are good already, so that idle time and waiting
come first."""
HOT_KERNEL = 0.1
ONE_STALL = 0.4
"""Smallest share of a kernel's samples at which one of the twenty reasons stands out."""
GAIN_OF_STALL = 0.5
"""The part of the warps' waiting time that a remedy may win: other warps worked in that time."""
BETTER_HALF = 0.5
NEARLY_ALL = 0.8
OTHER = "other"
FEW_SAMPLES = 30
"""With fewer, the order of stall reasons is chance: the standard error of a share of a half is 9%."""


def hot_group(analysis: ProfileAnalysis, busy: float) -> Iterator[Finding]:
    """The largest family of kernels in layers that are built alike; or one kernel, if it takes more than half of the family's time. `busy`:
    the share of the time in which kernels ran."""
    whole = int(analysis.scoped_sites["took"].sum())
    kernels = _kernels(analysis)
    groups = kernels.group_by("item", "group").agg(pl.col("took").sum()).sort("took", "item", "group", descending=[True, False, False])
    if not whole or groups.is_empty() or groups["took"][0] < HOT_GROUP * whole:
        return
    item, group, took = groups.row(0)
    inside = kernels.filter((pl.col("item") == item) & (pl.col("group") == group))
    names = inside.group_by("name", "short").agg(pl.col("took").sum()).sort("took", "name", descending=[True, False])
    kernel, short, most = names.row(0)
    if most > BETTER_HALF * took:
        item, took, inside = f"the kernel {short}", most, inside.filter(pl.col("name") == kernel)
    where = f" in {group}" if group else ""
    stall, waiting, place = _top_stall(analysis, inside)
    if stall:
        tail = f"; its top stall is {stall}" + (f" at {short_place(place)}" if place else "")
    else:
        place = place_text(*_hottest_line(inside))
        tail = f"; most of it is launched at {short_place(place)}" if place else ""
    pattern = search(group) if group else f"^{escaped(inside['family'][0])}$"
    by = "layer" if group else "family"
    if stall:
        evidence = Evidence("kernels", GPU_STALLS.name, by, pattern, waiting, place=place, stall=stall)
    else:
        evidence = Evidence("flame", GPU_TIME.name, by, pattern, kernel, place=place)
    share = took / whole
    sentence = f"{share:.0%} of GPU time{_in_steps(analysis)} is {item}{where}{tail}"
    yield Finding(sentence, share, evidence, "hot-group", share * busy * GAIN_OF_GROUP)


def _kernels(analysis: ProfileAnalysis) -> pl.DataFrame:
    """name, short, family, file, line, took in steps; `group`: its layer and all layers built alike; `item`: its family, or the kernel
    itself if the family is OTHER."""
    columns = ("name", "short", "kind", "family", "file", "line")
    sites = analysis.sites.with_row_index("site").select(pl.col("site").cast(pl.Int64), *columns)
    is_kernel = (pl.col("kind") == int(Kind.GPU_KERNEL)) & (pl.col("family") != COLLECTIVE)
    item = pl.when(pl.col("family") == OTHER).then(pl.format("the kernel {}", "short")).otherwise("family")
    kernels = analysis.scoped_shared.join(sites, on="site").filter(is_kernel)
    return kernels.with_columns(group=collapsed(pl.col("layer")), item=item)


def hot_stall(analysis: ProfileAnalysis, busy: float) -> Iterator[Finding]:
    """The largest kernel whose warps wait mostly for one reason."""
    sites = analysis.scoped_sites
    whole = max(int(sites["took"].sum()), 1)
    kernels = sites.filter(pl.col("kind") == int(Kind.GPU_KERNEL)).group_by("name").agg(pl.col("short").first(), pl.col("took").sum())
    first = by_reason(analysis.stalls).unique("kernel", keep="first", maintain_order=True)
    part = pl.col("samples") / pl.col("of_kernel")
    held = (
        kernels.join(first, left_on="name", right_on="kernel")
        .with_columns(part=part, share=pl.col("took") / whole)
        .filter((pl.col("part") >= ONE_STALL) & (pl.col("share") >= HOT_KERNEL) & (pl.col("of_kernel") >= FEW_SAMPLES))
        .sort(pl.col("part") * pl.col("took"), "name", descending=[True, False])
    )
    for row in held.head(1).iter_rows(named=True):
        place = place_text(*hottest_place(analysis.stalls, row["name"], row["reason"]))
        at = f", most at {short_place(place)}" if place else ""
        held_up = f"{row['part']:.0%} of its samples {_waiting(row['reason'])}{at}"
        sentence = f"{row['short']} takes {row['share']:.0%} of GPU time{_in_steps(analysis)}; {held_up}"
        pattern = f"^{escaped(row['short'])}$"
        view = Evidence("kernels", GPU_STALLS.name, "code", pattern, kernel=row["name"], place=place, stall=row["reason"])
        yield Finding(sentence, row["share"], view, "hot-stall", row["share"] * busy * row["part"] * GAIN_OF_STALL)


def _in_steps(analysis: ProfileAnalysis) -> str:
    """A text for sentences: shares cover only steps, if much else ran."""
    took = int(analysis.sites["took"].sum())
    return "" if int(analysis.scoped_sites["took"].sum()) >= NEARLY_ALL * took else " in steps"


def _waiting(reason: str) -> str:
    """`wait for … (long_scoreboard)`, in the plural."""
    text = meaning(reason).partition(":")[0]
    return f"are held up by {reason}" + (f" ({text})" if text else "")


def _top_stall(analysis: ProfileAnalysis, inside: pl.DataFrame) -> tuple[str, str, str]:
    """The most frequent stall reason in the group, the kernel that waits most for it, and the line where that kernel waits. If a kernel
    also ran outside the group, its samples count in proportion to its time inside."""
    part = (
        inside.group_by("name")
        .agg(here=pl.col("took").sum())
        .join(analysis.sites.group_by("name").agg(all=pl.col("took").sum()), on="name")
        .select(kernel="name", part=pl.col("here") / pl.col("all").clip(lower_bound=1))
    )
    weighed = by_reason(analysis.stalls).join(part, on="kernel").with_columns(weight=pl.col("samples") * pl.col("part"))
    if weighed["samples"].sum() < FEW_SAMPLES:
        return "", "", ""
    reason = weighed.group_by("reason").agg(pl.col("weight").sum()).sort("weight", "reason", descending=[True, False])["reason"][0]
    kernel = weighed.filter(pl.col("reason") == reason).sort("weight", "kernel", descending=[True, False])["kernel"][0]
    return reason, kernel, place_text(*hottest_place(analysis.stalls, kernel, reason))


def _hottest_line(inside: pl.DataFrame) -> tuple[str, int]:
    lines = inside.filter(pl.col("file") != "").group_by("file", "line").agg(pl.col("took").sum())
    row = lines.sort("took", "file", "line", descending=[True, False, False]).select("file", "line").head(1).rows()
    return row[0] if row else ("", 0)
