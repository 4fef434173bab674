"""What instrumentation changed about a kernel: registers, shared memory, spills, how many CTAs fit on a multiprocessor, its time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from aiflame.analyze.intra_data import Inside
from aiflame.attribute.stacks import Tables

REGISTERS = 65536
"""Of a multiprocessor, of every NVIDIA GPU since Volta."""
MOST_WARPS = {"70": 64, "75": 32, "80": 64, "86": 48, "87": 48, "89": 48, "90": 64, "100": 64, "103": 64, "120": 48}
SHARED = {"70": 96, "75": 64, "80": 164, "86": 100, "87": 164, "89": 100, "90": 228, "100": 228, "103": 228, "120": 100}
"""KiB of a multiprocessor, by compute capability: CUDA C Programming Guide, technical specifications."""
RESERVED_SHARED = 1024
"""Bytes of each CTA that the system takes, from compute capability 8.0 on."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What is not known is -1."""

    registers: tuple[int, int]
    """Plain and instrumented, as with all."""
    shared: tuple[int, int]
    spills: tuple[int, int]
    at_once: tuple[int, int]
    """CTAs that fit on a multiprocessor."""
    took_ns: tuple[float, float]
    """Of a launch, the median."""
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


def at_once(capability: str, threads: int, registers: int, shared: int) -> int:
    """CTAs that fit on a multiprocessor; -1: that is not known."""
    if capability not in SHARED or registers < 0 or shared < 0 or threads <= 0:
        return -1
    warps = threads // 32
    # Registers are given out by warps, 256 at a time.
    of_warp = -(-max(registers, 16) * 32 // 256) * 256
    reserved = RESERVED_SHARED if int(capability) >= 80 else 0
    by_shared = SHARED[capability] * 1024 // (shared + reserved) if shared + reserved else 32
    return int(max(min(REGISTERS // of_warp // warps, by_shared, MOST_WARPS[capability] // warps, 32), 0))


def _times(profile: Tables, inside: Inside) -> tuple[np.ndarray, np.ndarray]:
    """How long launches of the kernel took: those without records inside, of the plain build with as many CTAs, and those with."""
    grid = pl.col("grid_x").cast(pl.UInt64) * pl.col("grid_y") * pl.col("grid_z")
    known = inside.launches.filter(pl.col("end_ns") > 0)
    alike = profile.scan("kernel_shapes").filter((pl.col("name") == inside.name) & grid.is_in(known["grid"].unique().implode()))
    build = (pl.col("registers") == inside.kernel["plain_registers"]) & (pl.col("dynamic_shared") == inside.kernel["plain_shared"])
    if alike.filter(build).head(1).collect().height:
        alike = alike.filter(build)  # several kernels may have one name
    shapes = alike.select("process", shape="id")
    ran = (
        profile.scan("kernels")
        .filter((pl.col("process") == inside.process) & (pl.col("end_ns") >= pl.col("start_ns")))
        .join(shapes, on=["process", "shape"], how="semi")
        .select(pl.col("start_ns", "end_ns").cast(pl.Int64))
        .collect()
    )
    plain = ran.join(known.select("start_ns"), on="start_ns", how="anti")
    return (plain["end_ns"] - plain["start_ns"]).to_numpy(), (known["end_ns"] - known["start_ns"]).to_numpy()
