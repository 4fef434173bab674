"""Data that several causes share: launches by their shape, and the sampled instructions of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.amounts import amount
from aiflame.analyze.device.profile_analysis import ProfileAnalysis
from aiflame.analyze.findings.gpu.sass import Instruction, listing, producer
from aiflame.analyze.findings.idle import Scope
from aiflame.analyze.places import place_text, short_place
from aiflame.attribute.devices.stall_samples import UNKNOWN, sampled_functions, samples_of_counter
from aiflame.profile.schema.enums import GpuApi
from aiflame.values import dataclass

SHAPE = (
    "api",
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
    "registers",
    "static_shared",
    "dynamic_shared",
    "local_bytes",
)
WORTH_READING = 0.02
"""A share of the time: the code of kernels with less is not examined."""
_OF_MEMORY = ("long_scoreboard", "short_scoreboard")
"""Reasons that wait for the result of an earlier instruction."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """All launches of a kernel with one shape, in the time that findings cover."""

    name: str
    short: str
    family: str
    device: str
    layer: str
    """The layer of most of its time."""
    place: str
    """`file:line` of most of its launches; "" if unknown."""
    launches: int
    took: int
    share: float
    """A share of the time that findings cover."""
    grid: int
    """Number of blocks, and of threads in each; 0 if the interface counts otherwise."""
    block: int
    registers: int
    shared: int
    local_bytes: int

    @property
    def mean(self) -> float:
        return self.took / max(self.launches, 1)


@dataclass(frozen=True, slots=True)
class Sampled:
    """The samples of one kernel, each with the instruction that caused the wait."""

    rows: pl.DataFrame
    """offset, reason, opcode (of the waiting instruction), blamed (opcode of the instruction whose result it waits for, otherwise the
    same), flying (bytes of a thread's loads that are under way), samples"""
    listing: list[Instruction]

    @property
    def total(self) -> int:
        return int(self.rows["samples"].sum())

    def part(self, rows: pl.Expr) -> float:
        return int(self.rows.filter(rows)["samples"].sum()) / max(self.total, 1)

    def place(self, rows: pl.Expr) -> str:
        """The line with most of these samples."""
        here = self.rows.filter(rows, pl.col("file") != "").group_by("file", "line").agg(pl.col("samples").sum())
        here = here.sort("samples", "file", "line", descending=[True, False, False])
        return place_text(here["file"][0], here["line"][0]) if len(here) else ""


@dataclass(frozen=True)
class Facts:
    analysis: ProfileAnalysis
    scope: Scope

    def share(self, took: float) -> float:
        """A share of the time that findings cover."""
        return min(took / self.scope.whole_ns, 1.0) if self.scope.whole_ns else 0.0

    def took(self, ns: float) -> str:
        return f"{self.share(ns):.0%} {self.scope.label} ({amount(round(ns), 'ns')} in all)"

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """True for the executions in the time that findings cover."""
        inside = self.analysis.inside
        return np.ones(len(self.analysis.work.executions), dtype=np.bool_) if inside is None else inside

    @cached_property
    def side_by_side(self) -> float:
        """The number of kernels that run at once, on average while any runs."""
        whole = sum(device.kernels.total() for device in self.analysis.devices)
        return sum(int((device.end - device.begin).sum()) for device in self.analysis.devices) / max(whole, 1)

    @cached_property
    def kernels(self) -> list[Kernel]:
        """The kernels, those that take longest first."""
        profile, executions = self.analysis.profile, self.analysis.work.executions
        launched = profile.scan("kernels").select("process", "shape").collect()
        inside, executions = self.inside[: len(launched)], executions[: len(launched)]
        rows = launched.with_columns(executions["site"], took=(executions["end_ns"] - executions["start_ns"]).cast(pl.Int64)).filter(
            pl.Series(inside)
        )
        of_sites = (
            rows.group_by("process", "shape", "site").agg(pl.col("took").sum(), launches=pl.len()).sort("took", "site", descending=True)
        )
        rows = of_sites.group_by("process", "shape").agg(pl.col("took", "launches").sum(), pl.col("site").first())
        shapes = profile.table("kernel_shapes").select("process", pl.col("id").alias("shape"), *SHAPE).unique(["process", "shape"])
        sites = self.analysis.sites.with_row_index("site").select(
            pl.col("site").cast(pl.UInt32), "name", "short", "family", "device", "layer", "file", "line"
        )
        named = rows.join(shapes, on=["process", "shape"]).with_columns(pl.col("site").cast(pl.UInt32)).join(sites, on="site")
        alike = ["name", "device", *SHAPE]
        named = named.sort("took", *alike, descending=[True, *[False] * len(alike)])
        together = named.group_by(alike).agg(pl.col("took", "launches").sum(), pl.col("short", "family", "layer", "file", "line").first())
        together = together.sort("took", *alike, descending=[True, *[False] * len(alike)])
        return [self._kernel(row) for row in together.iter_rows(named=True)]

    def _kernel(self, row: dict[str, int | str]) -> Kernel:
        grid, block = (int(row[f"{of}_x"]) * int(row[f"{of}_y"]) * int(row[f"{of}_z"]) for of in ("grid", "block"))
        if row["api"] in (GpuApi.OPENCL, GpuApi.LEVEL_ZERO, GpuApi.HIP):
            grid = block = 0
        return Kernel(
            name=str(row["name"]),
            short=str(row["short"]),
            family=str(row["family"]),
            device=str(row["device"]),
            layer=str(row["layer"]),
            place=place_text(str(row["file"]), int(row["line"])),
            launches=int(row["launches"]),
            took=int(row["took"]),
            share=self.share(int(row["took"])),
            grid=grid,
            block=block,
            registers=int(row["registers"]),
            shared=int(row["static_shared"]) + int(row["dynamic_shared"]),
            local_bytes=int(row["local_bytes"]),
        )

    def sampled(self, kernel: str) -> Sampled | None:
        """None if the kernel has no samples, or no code was recorded."""
        if kernel not in self._sampled:
            self._sampled[kernel] = self._of_kernel(kernel)
        return self._sampled[kernel]

    @cached_property
    def _sampled(self) -> dict[str, Sampled | None]:
        return {}

    @cached_property
    def _samples(self) -> pl.DataFrame:
        """cubin, name, offset, reason, samples"""
        profile = self.analysis.profile
        named = sampled_functions(profile).lazy()
        counted = samples_of_counter(profile, not_issued=False).group_by(
            "process", "function", "offset", reason=pl.col("short").fill_null(UNKNOWN)
        )
        joined = counted.agg(samples=pl.col("count").sum()).join(named, on=["process", "function"])
        return joined.group_by("cubin", "name", "offset", "reason").agg(pl.col("samples").sum()).collect()

    def _of_kernel(self, kernel: str) -> Sampled | None:
        profile = self.analysis.profile
        if not profile.has("gpu_samples") or not profile.has("gpu_instructions"):
            return None
        here = self._samples.filter(name=kernel)
        if here.is_empty():
            return None
        cubins = here.group_by("cubin").agg(pl.col("samples").sum()).sort("samples", "cubin", descending=[True, False])
        cubin = cubins["cubin"][0]  # if several cubins have a function of that name, the one with most samples
        of_code = (pl.col("cubin") == cubin) & (pl.col("function") == kernel)
        code = profile.scan("gpu_instructions").filter(of_code).select("offset", "sass").unique("offset", keep="first").collect()
        if code.is_empty():
            return None
        instructions = listing(code.sort("offset").rows())
        row_of = {one.offset: number for number, one in enumerate(instructions)}
        rows = here.filter(cubin=cubin).sort("offset", "reason")
        opcodes, blamed, flying = [], [], []
        for offset, reason in rows.select("offset", "reason").rows():
            at = row_of.get(offset)
            own = instructions[at].opcode if at is not None else ""
            load = producer(instructions, at, reason) if at is not None and reason in _OF_MEMORY else None
            opcodes.append(own)
            blamed.append(load.opcode if load else own)
            flying.append(load.flying * load.bits // 8 if load else 0)
        rows = rows.select("offset", "reason", "samples").with_columns(
            opcode=pl.Series(opcodes, dtype=pl.String),
            blamed=pl.Series(blamed, dtype=pl.String),
            flying=pl.Series(flying, dtype=pl.Int64),
        )
        return Sampled(self._with_lines(rows, of_code), instructions)

    def _with_lines(self, rows: pl.DataFrame, of_code: pl.Expr) -> pl.DataFrame:
        profile = self.analysis.profile
        if not profile.has("gpu_lines"):
            return rows.with_columns(file=pl.lit(""), line=pl.lit(0, dtype=pl.Int64))
        lines = profile.scan("gpu_lines").filter(of_code & (pl.col("depth") == 0) & (pl.col("line") > 0)).unique("offset", keep="first")
        places = lines.select("offset", "file", pl.col("line").cast(pl.Int64)).collect()
        return rows.join(places, on="offset", how="left").with_columns(pl.col("file").fill_null(""), pl.col("line").fill_null(0))


def at(place: str, before: str = " at ") -> str:
    return f"{before}{short_place(place)}" if place else ""


def distinct_kernels(facts: Facts, least: float) -> Iterator[Kernel]:
    """The heaviest shape of each kernel that has this share of the time."""
    seen: set[str] = set()
    for kernel in facts.kernels:
        if kernel.share < least:
            return
        if kernel.name not in seen:
            seen.add(kernel.name)
            yield kernel
