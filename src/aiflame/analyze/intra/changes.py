"""The changes that instrumentation makes to a kernel: registers, shared memory, spills, the number of CTAs that fit on a multiprocessor,
time."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.analyze.intra.data import Inside
from aiflame.intra.occupancy import at_once
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass


@dataclass(frozen=True, slots=True)
class Changes:
    """Unknown numbers are -1."""

    registers: tuple[int, int]
    """Plain and instrumented kernel, as in all pairs."""
    shared: tuple[int, int]
    spills: tuple[int, int]
    at_once: tuple[int, int]
    """CTAs that fit on a multiprocessor."""
    took_ns: tuple[float, float]
    """The median duration of a launch."""
    plain_launches: int
    instrumented_launches: int

    @property
    def overhead(self) -> float | None:
        plain, instrumented = self.took_ns
        return instrumented / plain - 1 if plain > 0 and instrumented > 0 else None


def changes(profile: Tables, inside: Inside) -> Changes:
    row = inside.kernel
    pairs = {name: (int(row[f"plain_{name}"]), int(row[name])) for name in ("registers", "shared", "spills")}
    threads = int(row["warps"]) * 32
    capability = str(row["arch"]).removeprefix("sm_").rstrip("af")
    fits = tuple(at_once(capability, threads, pairs["registers"][place], pairs["shared"][place]) for place in range(2))
    plain, instrumented = _times(profile, inside)
    if not len(plain) and int(row["plain_ns"]) > 0:
        plain = np.array([int(row["plain_ns"])], dtype=np.int64)
    took = tuple(float(np.median(each)) if len(each) else -1.0 for each in (plain, instrumented))
    return Changes(
        pairs["registers"], pairs["shared"], pairs["spills"], (fits[0], fits[1]), (took[0], took[1]), len(plain), len(instrumented)
    )  # fmt: skip


def _times(profile: Tables, inside: Inside) -> tuple[np.ndarray, np.ndarray]:
    """Durations of launches of the kernel: those of the plain kernel with as many CTAs, and those with records."""
    grid = pl.col("grid_x").cast(pl.UInt64) * pl.col("grid_y") * pl.col("grid_z")
    timed = inside.launches.filter(pl.col("end_ns") > 0)
    alike = profile.scan("kernel_shapes").filter((pl.col("name") == inside.name) & grid.is_in(timed["grid"].unique().implode()))
    build = (pl.col("registers") == inside.kernel["plain_registers"]) & (pl.col("dynamic_shared") == inside.kernel["plain_shared"])
    if alike.filter(build).head(1).collect().height:
        alike = alike.filter(build)  # several kernels may have one name
    shapes = alike.select("process", shape="id")
    executions = (
        profile.scan("kernels")
        .filter((pl.col("process") == inside.process) & (pl.col("end_ns") >= pl.col("start_ns")))
        .join(shapes, on=["process", "shape"], how="semi")
        .select(pl.col("start_ns", "end_ns").cast(pl.Int64))
        .collect()
    )
    plain = executions.join(timed.select("start_ns"), on="start_ns", how="anti")
    return (plain["end_ns"] - plain["start_ns"]).to_numpy(), (timed["end_ns"] - timed["start_ns"]).to_numpy()
