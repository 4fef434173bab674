"""Ops of imported traces by the inputs of their calls: torch's `group_by_input_shape`, and the unique arguments of TraceLens."""

from __future__ import annotations

import json
from collections.abc import Sequence

import polars as pl

from aiflame.analyze.stats.calls import op_frames
from aiflame.analyze.stats.sums import percent
from aiflame.attribute.analysis import Analysis, once

MEMORY = ("self_cpu_memory_bytes", "cpu_memory_bytes", "self_device_memory_bytes", "device_memory_bytes")
_OF_DEVICES = ("self_device_ns", "device_ns", "launches")
_TIMES = ("self_cpu_ns", "cpu_ns", *_OF_DEVICES)
_TYPES = {
    "float": "f32", "double": "f64", "c10::Half": "f16", "c10::BFloat16": "bf16", "long int": "i64", "long": "i64", "int": "i32",
    "short int": "i16", "short": "i16", "signed char": "i8", "unsigned char": "u8", "bool": "bool",
}  # fmt: skip
"""torch's names of the types of elements, in short."""


@once
def op_sums(profile: Analysis) -> pl.DataFrame:
    """name, shapes, types, values, calls, _TIMES, flops, MEMORY. Facts that the trace does not have are null: operations of ops without a
    model, bytes without moments of memory, work of devices without devices."""
    renamed = {"self_ns": "self_cpu_ns", "took_ns": "cpu_ns"} | {name.replace("_memory", ""): name for name in MEMORY}
    rows = profile.table("op_sums").drop("process", "id").rename(renamed)
    rows = rows.with_columns(pl.exclude("name", "shapes", "types", "values").cast(pl.Int64))
    rows = rows.with_columns(pl.when(pl.col("flops") > 0).then("flops"))
    for together in (MEMORY[:2], MEMORY[2:], _OF_DEVICES):
        if not any((rows[name] != 0).any() for name in together):
            rows = rows.with_columns(pl.lit(None, pl.Int64).alias(name) for name in together)
    return rows


def by_name(profile: Analysis) -> pl.DataFrame:
    """name, calls, flops and MEMORY: of all calls of an op, of a runtime, or of a stretch of time that the program named."""
    return _summed(op_sums(profile), ["name"], ("calls", "flops", *MEMORY))


def key_averages_by_shape(profile: Analysis) -> pl.DataFrame:
    """Each op with each combination of shapes of its inputs."""
    rows = op_sums(profile).filter(pl.col("calls") > 0, pl.col("cpu_ns") > 0)
    if not (rows["shapes"] != "").any():
        rows = rows.clear()
    return (
        _summed(rows, ["name", "shapes"], ("calls", *_TIMES, "flops", *MEMORY))
        .with_columns(percent("self_cpu_ns", name="self_cpu_percent"), avg_cpu_ns=pl.col("cpu_ns") / pl.col("calls"))
        .sort("self_cpu_ns", "name", "shapes", descending=[True, False, False])
        .select("self_cpu_percent", "self_cpu_ns", "cpu_ns", "avg_cpu_ns", *_OF_DEVICES, *MEMORY, "flops", "calls", "name", "shapes")
    )


def unique_arguments(profile: Analysis) -> pl.DataFrame:
    """The ops that launched work themselves, with each combination of shapes, types and other arguments; without devices, all ops by their
    own time on CPUs."""
    ops = op_sums(profile).join(op_frames(profile).select("name").unique(), on="name", how="semi").filter(pl.col("shapes") != "")
    time = "self_cpu_ns" if ops["launches"].null_count() == len(ops) else "self_device_ns"
    texts = [_arguments(*row) for row in ops.select("shapes", "types", "values").iter_rows()]
    named = ops.with_columns(op="name", arguments=pl.Series(texts, dtype=pl.String))
    return (
        _summed(named, ["op", "arguments"], ("calls", *_TIMES, "flops"))
        .filter(pl.col(time) > 0)
        .with_columns(percent(time), avg_ns=pl.col(time) / pl.col("calls"))
        .sort(time, "op", "arguments", descending=[True, False, False])
        .select("share_percent", "self_device_ns", "self_cpu_ns", "avg_ns", "launches", "flops", "calls", "op", "arguments")
    )


def _arguments(shapes: str, types: str, values: str) -> str:
    """`f32[2, 288], f32[288, 4], 1`: tensors with their types, numbers as they are, `-` for one that is not known."""
    parts = [json.loads(text or "[]") for text in (shapes, types, values)]
    sides, kinds, others = (part if isinstance(part, list) else [] for part in parts)
    texts = []
    for place, shape in enumerate(sides):
        kind = str(kinds[place]) if place < len(kinds) else ""
        other = str(others[place]) if place < len(others) else ""
        texts.append(f"{_TYPES.get(kind, kind)}{json.dumps(shape)}" if shape or (kind in _TYPES and not other) else other or "-")
    return ", ".join(texts)


def _summed(rows: pl.DataFrame, by: list[str], columns: Sequence[str]) -> pl.DataFrame:
    """The sums of these columns; null where all values are."""
    sums = (pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name) for name in columns)
    return rows.group_by(by, maintain_order=True).agg(sums)
