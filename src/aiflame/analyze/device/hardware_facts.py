"""Numbers of a profile that say how well a device was recorded: counts alone, no names of the program."""

from __future__ import annotations

from typing import Any

import polars as pl

from aiflame.profile.schema.enums import GpuApi
from aiflame.profile.tables.interface import Tables

_CALL = ("process", "api", "correlation")
_PLACE = ("cubin", "function", "offset")


def hardware_facts(profile: Tables) -> dict[str, Any]:
    launches = profile.scan("launches").select(*_CALL, "stack").collect()
    return {
        "devices": _devices(profile, launches),
        "launches": len(launches),
        "launches_with_stack": int((launches["stack"] > 0).sum()),
        "copies": profile.table("copies").height,
        "cpu_samples": int(profile.scan("cpu_samples").select(pl.col("weight").cast(pl.Int64).sum()).collect().item() or 0),
        "stalls": _stalls(profile),
    }


def _devices(profile: Tables, launches: pl.DataFrame) -> list[dict[str, Any]]:
    shapes = profile.table("kernel_shapes").select("process", "device", "name", shape="id")
    kernels = profile.table("kernels").select("shape", "start_ns", "end_ns", *(pl.col(name).cast(launches.schema[name]) for name in _CALL))
    launched = kernels.join(launches.select(_CALL).unique(), on=_CALL, how="left", coalesce=False)
    rows = launched.join(shapes, on=["process", "shape"], how="left").with_columns(
        took=pl.col("end_ns").cast(pl.Int64) - pl.col("start_ns")
    )
    each = rows.group_by("device", "api").agg(
        kernels=pl.len(),
        functions=pl.col("name").n_unique(),
        kernels_with_launch=pl.col("correlation_right").is_not_null().sum(),
        backwards=(pl.col("took") < 0).sum(),
        gpu_time_ns=pl.col("took").clip(0).sum(),
        shortest_ns=pl.col("took").min(),
        longest_ns=pl.col("took").max(),
    )
    apis = {int(api): api.name for api in GpuApi}
    return [{**row, "api": apis.get(row["api"], str(row["api"]))} for row in each.sort("device", "api").iter_rows(named=True)]


def _stalls(profile: Tables) -> dict[str, Any]:
    windows = profile.table("gpu_windows")
    reasons = profile.table("stall_reasons").select("process", "name", reason="id")
    functions = profile.table("gpu_functions").select("process", "cubin", function_row="id", function="name")
    samples = (
        profile.table("gpu_samples")
        .rename({"function": "function_row"})
        .join(reasons, on=["process", "reason"], how="left")
        .join(functions, on=["process", "function_row"], how="left")
    )
    places = samples.select(_PLACE).unique()
    by_reason = samples.group_by("name").agg(pl.col("count").cast(pl.Int64).sum()).sort("name")
    total = {name: int(windows[name].cast(pl.Int64).sum()) for name in ("samples", "dropped", "foreign")}
    return {
        "windows": len(windows),
        **total,
        "by_reason": dict(by_reason.iter_rows()),
        "functions": samples.select("cubin", "function").n_unique(),
        "instructions": len(places),
        "instructions_with_text": _among(profile, "gpu_instructions", places),
        "instructions_with_line": _among(profile, "gpu_lines", places),
    }


def _among(profile: Tables, table: str, places: pl.DataFrame) -> int:
    if not profile.has(table):
        return 0
    there = profile.scan(table).select(_PLACE).unique().collect().cast(pl.Schema(places.schema))
    return len(places.join(there, on=_PLACE, how="semi"))
