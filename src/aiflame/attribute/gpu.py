"""GPU time by code: process → thread → the functions that launched → `-` → kernel or copy. Exact: each record names its launch."""

from __future__ import annotations

import polars as pl

from aiflame.attribute.stacks import Tables, functions, hang
from aiflame.attribute.tree import FRAME_COLUMNS, GPU_TIME, Frame, Tree, frame_table
from aiflame.profile.kinds import Kind
from aiflame.profile.schema import CopyKind

BOUNDARY = Frame("-", Kind.BOUNDARY)
NO_LAUNCH = Frame("[unattributed: no launch]", Kind.UNATTRIBUTED)
COPY_NAMES = {
    CopyKind.HOST_TO_DEVICE: "[copy host→device]",
    CopyKind.DEVICE_TO_HOST: "[copy device→host]",
    CopyKind.DEVICE_TO_DEVICE: "[copy device→device]",
    CopyKind.FILL: "[fill]",
    CopyKind.MAP: "[map]",
}
LONGEST_NS = 1 << 50
"""No kernel runs for more than this, 13 days, unless its record is damaged."""
JOIN = ["process", "api", "correlation"]


def gpu_tree(profile: Tables) -> Tree:
    """The tree of kernels and copies, under the stacks that launched them."""
    copy_name = pl.col("kind").replace_strict({int(kind): name for kind, name in COPY_NAMES.items()}, default="[copy]")
    ended = pl.col("end_ns") > pl.col("start_ns")  # a record may be damaged
    took = pl.when(ended).then(pl.col("end_ns") - pl.col("start_ns")).otherwise(0).clip(upper_bound=LONGEST_NS).sum().cast(pl.Int64)
    named = ["name", "device"]
    shapes = profile.scan("kernel_shapes").select("process", "name", "device", shape="id")
    ran = pl.concat(
        [
            profile.scan("kernels")
            .with_columns(pl.col("api").cast(pl.UInt32))
            .group_by(*JOIN, "shape")
            .agg(value=took)
            .join(shapes, on=["process", "shape"], how="left")
            .select(pl.col(JOIN), pl.col(named).fill_null(""), "value"),
            profile.scan("copies").with_columns(name=copy_name).group_by(*JOIN, *named).agg(value=took),
        ]
    )
    launches = profile.scan("launches").select(*JOIN, "thread", "stack").unique(JOIN, keep="first", maintain_order=True)
    measured = (
        ran.join(launches, on=JOIN, how="left")
        .group_by("process", "thread", "stack", *named)
        .agg(pl.col("value").sum())
        .sort("process", "thread", "stack", *named)
        .collect()
    )
    kernels = measured.select(named).unique(maintain_order=True).with_row_index("ending1")
    launched = pl.col("thread").is_not_null()
    measured = (
        measured.join(kernels, on=named, how="left", maintain_order="left")
        .with_columns(ending0=pl.when(launched).then(pl.lit(0, dtype=pl.UInt32)))
        .with_columns(pl.col("thread", "stack").fill_null(0))
    )
    boundary = frame_table([BOUNDARY])[1:]
    return hang(profile, functions(profile), measured, [boundary, _kernel_frames(kernels)], GPU_TIME, NO_LAUNCH)


def _kernel_frames(kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernels as frames; the device stands where a function has its library."""
    text = pl.lit("")
    return kernels.select(
        "name",
        kind=pl.lit(int(Kind.GPU_KERNEL), dtype=pl.UInt8),
        file=text,
        line=pl.lit(0, dtype=pl.UInt32),
        module="device",
        full_name=text,
        approximate=pl.lit(False),
    ).select(list(FRAME_COLUMNS))
