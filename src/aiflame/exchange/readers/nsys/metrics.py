"""Metrics of GPUs that nsys sampled (--gpu-metrics-devices), as measurements of the machine."""

from __future__ import annotations

import re

import polars as pl

from aiflame.exchange.readers.devices.trace import DeviceTrace
from aiflame.exchange.readers.making import FIRST_NS, Making
from aiflame.exchange.readers.nsys.tables import Tables
from aiflame.exchange.readers.sqlite_file import INT, REAL, TEXT

TABLES = ("GPU_METRICS",)
_NAMES = "TARGET_INFO_GPU_METRICS"
_UNIT = re.compile(r"(?P<name>.*?) \[(?:Throughput )?(?P<unit>[^\]]*)\]")
_DEVICE = 0xFF
"""The bits of a type that number the GPU."""


def add_metrics(file: Tables, making: Making, trace: DeviceTrace) -> None:
    """A value stands at the end of the time that it describes; the profile's stand at its begin."""
    values = file.read("GPU_METRICS", {"timestamp": INT, "typeId": INT, "metricId": INT, "value": REAL}).drop_nulls()
    if values.is_empty():
        return
    names = file.read(_NAMES, {"typeId": INT, "metricId": INT, "metricName": TEXT}).drop_nulls()
    series = names.unique(["typeId", "metricId"], keep="first", maintain_order=True).with_row_index("series")
    rows = values.join(series, on=["typeId", "metricId"]).with_columns(time_ns=pl.col("timestamp") + trace.shift)
    lost = len(values) - len(rows)
    if lost:
        making.unused["values of GPU metrics without a name"] += lost
    parts = [_UNIT.fullmatch(name) for name in series["metricName"].to_list()]
    titles = [(of["name"], of["unit"]) if of else (name, "") for of, name in zip(parts, series["metricName"].to_list(), strict=True)]
    described = series.select(
        "series",
        device=(pl.col("typeId") & _DEVICE).replace_strict(dict(trace.devices), default="GPU", return_dtype=pl.String),
    ).with_columns(
        source=pl.lit("nvidia"),
        name=pl.Series([name for name, _ in titles], dtype=pl.String),
        unit=pl.Series([unit for _, unit in titles], dtype=pl.String),
        identity=pl.lit(""),
    )
    held = rows.sort("series", "time_ns").with_columns(time_ns=pl.col("time_ns").shift(1).over("series").fill_null(pl.col("time_ns")))
    making.measure(described, held.filter(pl.col("time_ns") >= FIRST_NS).select("series", "time_ns", "value"))
