"""Findings about kernels: which kind of work takes the GPU's time, in which layers, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from aiflame.analyze.facts import Facts
from aiflame.analyze.finding import Evidence, Finding
from aiflame.analyze.layer_groups import collapsed, escaped, search
from aiflame.analyze.places import place_text, short_place
from aiflame.analyze.stalls import by_reason, hottest_place
from aiflame.attribute.families import COLLECTIVE
from aiflame.attribute.tree import GPU_STALLS, GPU_TIME
from aiflame.profile.kinds import Kind
from aiflame.resolve.stall_reasons import meaning

HOT_GROUP = 0.15
"""Of GPU time: something is always the largest; below this share, to make it twice as fast wins less than a twelfth."""
GAIN_OF_GROUP = 0.3
"""Of a group's time, what is likely to be won: kernels of libraries are good already, so that idle time and waiting come first."""
HOT_KERNEL = 0.1
ONE_STALL = 0.4
"""Of a kernel's samples: one reason stands out, among the twenty that there are."""
GAIN_OF_STALL = 0.5
"""Of the time that warps wait: other warps worked meanwhile."""
NEARLY_ALL = 0.8
OTHER = "other"
FEW_SAMPLES = 30
"""With fewer, the order of stall reasons is chance: the standard error of a share of a half is 9%."""


def hot_group(known: Facts, busy: float) -> Iterator[Finding]:
    """The largest family of kernels in layers that are built alike. `busy`: the share of the time in which kernels ran."""
    kernels = known.steady_shared.join(
        known.sites.with_row_index("site").select(pl.col("site").cast(pl.Int64), "name", "short", "kind", "family", "file", "line"),
        on="site",
    ).filter((pl.col("kind") == int(Kind.GPU_KERNEL)) & (pl.col("family") != COLLECTIVE))
    whole = int(known.steady_took.sum())
    groups = (
        kernels.with_columns(group=collapsed(pl.col("layer")))
        .group_by("family", "group")
        .agg(pl.col("took").sum())
        .sort("took", "family", "group", descending=[True, False, False])
    )
    if not whole or groups.is_empty() or groups["took"][0] < HOT_GROUP * whole:
        return
    family, group, took = groups.row(0)
    inside = kernels.filter((pl.col("family") == family) & (collapsed(pl.col("layer")) == group))
    hottest = inside.group_by("name", "short").agg(pl.col("took").sum()).sort("took", "name", descending=[True, False]).row(0)
    stall, place = _top_stall(known, inside)
    where = f" in {group}" if group else ""
    if not place:
        place = place_text(*_hottest_line(inside))
        tail = f"; most of it is launched at {short_place(place)}" if place and not stall else ""
        tail = f"; its top stall is {stall}" if stall else tail
    else:
        tail = f"; its top stall is {stall} at {short_place(place)}"
    what = _what(family, inside, took)
    share = took / whole
    view = Evidence(
        "kernels" if stall else "flame",
        GPU_STALLS.name if stall else GPU_TIME.name,
        "layer" if group else "family",
        search(group) if group else f"^{escaped(family)}$",
        kernel=hottest[0],
        place=place,
    )
    yield Finding(
        f"{share:.0%} of GPU time{_in_steps(known)} is {what}{where}{tail}", share, view, "hot-group", share * busy * GAIN_OF_GROUP
    )


def hot_stall(known: Facts, busy: float) -> Iterator[Finding]:
    """The largest kernel whose warps wait mostly for one thing."""
    sites = known.sites.with_columns(took=pl.Series(known.steady_took))
    whole = max(int(sites["took"].sum()), 1)
    kernels = sites.filter(pl.col("kind") == int(Kind.GPU_KERNEL)).group_by("name").agg(pl.col("short").first(), pl.col("took").sum())
    first = by_reason(known.stalls).unique("kernel", keep="first", maintain_order=True)
    part = pl.col("samples") / pl.col("of_kernel")
    held = (
        kernels.join(first, left_on="name", right_on="kernel")
        .with_columns(part=part, share=pl.col("took") / whole)
        .filter((pl.col("part") >= ONE_STALL) & (pl.col("share") >= HOT_KERNEL) & (pl.col("of_kernel") >= FEW_SAMPLES))
        .sort(pl.col("part") * pl.col("took"), "name", descending=[True, False])
    )
    for row in held.head(1).iter_rows(named=True):
        place = place_text(*hottest_place(known.stalls, row["name"], row["reason"]))
        at = f", most at {short_place(place)}" if place else ""
        held_up = f"{row['part']:.0%} of its samples {_waiting(row['reason'])}{at}"
        sentence = f"{row['short']} takes {row['share']:.0%} of GPU time{_in_steps(known)}; {held_up}"
        view = Evidence("kernels", GPU_STALLS.name, "code", f"^{escaped(row['short'])}$", kernel=row["name"], place=place)
        yield Finding(sentence, row["share"], view, "hot-stall", row["share"] * busy * row["part"] * GAIN_OF_STALL)


def _in_steps(known: Facts) -> str:
    """Says that shares are of steps alone, where much else ran."""
    took = int(known.sites["took"].sum())
    return "" if int(known.steady_took.sum()) >= NEARLY_ALL * took else " in steps"


def _waiting(reason: str) -> str:
    """`wait for … (long_scoreboard)`, in the plural."""
    told = meaning(reason).partition(":")[0]
    return f"are held up by {reason}" + (f" ({told})" if told else "")


def _what(family: str, inside: pl.DataFrame, took: int) -> str:
    """The family; where one kernel is nearly all of it, or the family says nothing, that kernel."""
    short, most = inside.group_by("short").agg(pl.col("took").sum()).sort("took", "short", descending=[True, False]).row(0)
    return (
        family
        if family != OTHER and most < NEARLY_ALL * took
        else f"the kernel {short}"
        if most >= NEARLY_ALL * took
        else "kernels of no known family"
    )


def _top_stall(known: Facts, inside: pl.DataFrame) -> tuple[str, str]:
    """The reason that the group's warps wait for most, and the place where the kernel does that has most of it. Samples of a kernel that
    also ran elsewhere count by its time in the group."""
    part = (
        inside.group_by("name")
        .agg(here=pl.col("took").sum())
        .join(known.sites.group_by("name").agg(all=pl.col("took").sum()), on="name")
        .select(kernel="name", part=pl.col("here") / pl.col("all").clip(lower_bound=1))
    )
    weighed = by_reason(known.stalls).join(part, on="kernel").with_columns(weight=pl.col("samples") * pl.col("part"))
    if weighed["samples"].sum() < FEW_SAMPLES:
        return "", ""
    reason = weighed.group_by("reason").agg(pl.col("weight").sum()).sort("weight", "reason", descending=[True, False])["reason"][0]
    kernel = weighed.filter(pl.col("reason") == reason).sort("weight", "kernel", descending=[True, False])["kernel"][0]
    return reason, place_text(*hottest_place(known.stalls, kernel, reason))


def _hottest_line(inside: pl.DataFrame) -> tuple[str, int]:
    lines = inside.filter(pl.col("file") != "").group_by("file", "line").agg(pl.col("took").sum())
    row = lines.sort("took", "file", "line", descending=[True, False, False]).select("file", "line").head(1).rows()
    return row[0] if row else ("", 0)
