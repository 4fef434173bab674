"""The records from inside one kernel: its tables, and spans as arrays in which units (warps of CTAs) are separate."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Ints
from aiflame.attribute.devices.inside import kernel_names
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

_TABLES = ("kernels", "scopes", "paths", "launches", "times", "ctas", "warps", "spans")


@dataclass(frozen=True)
class Inside:
    """One instrumented kernel of a process. All tables have only its rows."""

    process: int
    number: int
    name: str
    """The name as compiled."""
    short: str
    kernel: dict[str, int | float | str]
    """The row of `intra_kernels`."""
    scopes: pl.DataFrame
    paths: pl.DataFrame
    launches: pl.DataFrame
    times: pl.DataFrame
    """Times of all launches."""
    ctas: pl.DataFrame
    """CTAs of the launches whose spans are kept; `warps` and `spans` belong to the same launches."""
    warps: pl.DataFrame
    spans: pl.DataFrame

    @cached_property
    def kept(self) -> pl.DataFrame:
        return self.launches.filter(pl.col("kept"))

    @cached_property
    def took_ns(self) -> float:
        """The median duration of a launch, from the device's records, otherwise from its first CTA to its last."""
        took = self.launches.select(took=pl.when(pl.col("end_ns") > 0).then(pl.col("end_ns") - pl.col("start_ns")).otherwise("span_ns"))
        return float(np.median(took["took"].to_numpy())) if len(took) else 0.0

    @cached_property
    def is_whole(self) -> bool:
        """True if all CTAs of the launches were recorded."""
        return len(self.kept) > 0 and bool((self.kept["ctas"] == self.kept["grid"]).all())

    @cached_property
    def line(self) -> Line:
        return Line.of(self)


@dataclass(frozen=True, slots=True)
class Line:
    """All moments of all CTAs on one line: each CTA has a stretch of its own, so that arithmetic on intervals keeps CTAs apart."""

    zero: Ints
    """for each CTA: the moment in the profile at which its stretch begins, when its launch began (launches may be hours apart)"""
    step: int
    """The length of a stretch."""
    cta: Ints
    """for each span: its CTA's place in `Inside.ctas`"""
    unit: Ints
    """for each span: the number of its warp, increasing with the CTA"""
    begin: Ints
    end: Ints
    window_begin: Ints
    """for each CTA: from here on no record is missing"""
    window_end: Ints
    order: Ints
    """Rows of `Inside.spans` by unit and begin: spans of the line are in this order."""

    @staticmethod
    def of(inside: Inside) -> Line:
        key = ["launch", "cta"]
        ctas = inside.ctas.select(*key, "begin_ns", "done_ns", "end_ns").with_row_index("place")
        since = inside.warps.group_by(key).agg(since=pl.col("begin_ns").max())
        ctas = ctas.join(since, on=key, how="left", maintain_order="left").with_columns(pl.coalesce("since", "begin_ns").alias("since"))
        ctas = ctas.with_columns(zero=pl.col("begin_ns").min().over("launch"))
        zero = ctas["zero"].to_numpy()
        spans = inside.spans.select(*key, "warp", "begin_ns", "end_ns").join(ctas.select(*key, "place", "zero"), on=key, how="left")
        cta = spans["place"].fill_null(0).to_numpy().astype(np.int64)
        step = int((ctas["end_ns"] - ctas["zero"]).max() or 0) + 1024
        begin, end = (np.clip((spans[name] - spans["zero"].fill_null(0)).to_numpy(), 0, step - 1) for name in ("begin_ns", "end_ns"))
        unit = cta << 16 | spans["warp"].to_numpy().astype(np.int64)
        order = np.lexsort((begin, unit))
        shift = cta * step
        window_begin, window_end = ((ctas[name].to_numpy() - zero) + np.arange(len(ctas)) * step for name in ("since", "done_ns"))
        return Line(
            zero, step, cta[order], unit[order], (begin + shift)[order], (end + shift)[order], window_begin, window_end, order
        )  # fmt: skip


def insides(profile: Tables) -> Iterator[Inside]:
    """The inside of each instrumented kernel that was launched, the longest first; nothing if there are none."""
    if not profile.has("intra_kernels"):
        return
    tables = {name: profile.table(f"intra_{name}") for name in _TABLES}
    names = dict(kernel_names(profile).select("name", "short").rows())
    kernels = []
    for row in tables["kernels"].iter_rows(named=True):
        process, number = row["process"], row["kernel"]
        mine = (pl.col("process") == process) & (pl.col("kernel") == number)
        launches = tables["launches"].filter(mine)
        if launches["records"].sum() == 0:
            continue
        of_launch = (pl.col("process") == process) & pl.col("launch").is_in(launches["launch"].implode())
        parts = {name: tables[name].filter(of_launch) for name in ("times", "ctas", "warps", "spans")}
        of_kernel = {name: tables[name].filter(mine) for name in ("scopes", "paths")}
        short = names.get(row["name"], row["name"])
        kernels.append(Inside(process, number, row["name"], short, row, launches=launches, **of_kernel, **parts))
    yield from sorted(kernels, key=lambda one: (-one.took_ns * len(one.launches), one.process, one.number))
