"""The modelled work of kernels whose ops are known by the shapes of their inputs (the table `op_work`), and the peak that limits it."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.arrays.types import Floats
from aiflame.attribute.limits.peaks import Peaks, peaks
from aiflame.profile.schema.enums import GpuApi
from aiflame.profile.tables.interface import Tables

_IN_TF32 = r"(?i)tf32|s1688gemm|s1688cudnn"
"""Names of kernels that multiply float32 on tensor cores."""


def of_kernels(profile: Tables, kernels: pl.DataFrame) -> pl.DataFrame:
    """For each of these kernels (process, api, correlation, start_ns, end_ns, name, device) also known (whether a model has its op's work),
    took, flops, bytes and type of the whole call of its op, and its `share` of them: kernels of one call share by their time."""
    work = profile.scan("op_work").select("process", "correlation", "op", "flops", "bytes", "type").collect()
    work = work.unique(["process", "correlation"], keep="first", maintain_order=True).with_columns(
        api=pl.lit(int(GpuApi.CUDA)).cast(kernels["api"].dtype), known=pl.lit(True)
    )
    rows = kernels.join(work, on=["process", "api", "correlation"], how="left", maintain_order="left")
    took = (pl.col("end_ns") - pl.col("start_ns")).clip(lower_bound=0)
    rows = rows.with_columns(
        took=took,
        known=pl.col("known").fill_null(False),
        type=pl.col("type").fill_null(""),
        flops=pl.col("flops").fill_null(0).cast(pl.Float64),
        bytes=pl.col("bytes").fill_null(0).cast(pl.Float64),
    )
    whole = pl.col("took").sum().over("process", "op")
    return rows.with_columns(share=pl.when(pl.col("known") & (whole > 0)).then(pl.col("took") / whole).otherwise(0.0))


def rates(rows: pl.DataFrame) -> Floats:
    """For each row of `of_kernels` the peak rate of its operations; 0 where the vendor has none for their type.

    A trace does not say whether float32 was multiplied as TF32. It was if the kernel's name says so, or if the op was quicker than its
    device can be without tensor cores."""
    of = {name: peaks(name) for name in rows["device"].unique()}
    kinds = rows.select("device", "type").unique()
    plain = kinds.with_columns(rate=pl.Series([_rate(of[device], kind) for device, kind in kinds.rows()], dtype=pl.Float64))
    joined = rows.select("device", "type", "name", "flops", "share", "took").join(
        plain, on=["device", "type"], how="left", maintain_order="left"
    )
    in_tensor_cores = {name: one.tf32 if one is not None else 0.0 for name, one in of.items()}
    tensor: Floats = joined["device"].replace_strict(in_tensor_cores, return_dtype=pl.Float64).to_numpy()
    rate: Floats = joined["rate"].to_numpy().copy()
    work = (joined["flops"] * joined["share"]).to_numpy()
    quicker = work * 1e9 > rate * joined["took"].to_numpy()
    in_tf32 = (joined["type"] == "fp32").to_numpy() & (tensor > 0) & (joined["name"].str.contains(_IN_TF32).to_numpy() | quicker)
    return np.where(in_tf32, tensor, rate)


def _rate(device: Peaks | None, kind: str) -> float:
    if device is None:
        return 0.0
    return {"bf16": device.bf16, "fp16": device.bf16, "fp32": device.fp32, "fp64": device.fp64, "fp8": device.fp8}.get(kind, 0.0)
