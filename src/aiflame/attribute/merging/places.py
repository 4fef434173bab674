"""Where each launch stands in its program: its kernel, layer and phase, and how many of the same went before it in its step."""

from __future__ import annotations

import re

import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.devices.work import work
from aiflame.attribute.meaning.context import of_devices
from aiflame.attribute.meaning.phases import NAMES
from aiflame.attribute.prefixes import Prefix

KERNEL_KEY = ["slot", "kind", "name", "readable", "detailed"]
LAYER_KEY = [*KERNEL_KEY, "layer", "phase"]
PLACE_KEY = [*LAYER_KEY, "place"]
UNKNOWN = -1
"""The place of a launch outside of steps, and of one behind very many of its kind."""
_MOST_PLACES = 4096
_BY_MEANING = Prefix(("phase", "layer"))


def places(profile: Analysis) -> pl.DataFrame:
    """A row for each kernel, then for each copy, in the order of their tables: process, device, PLACE_KEY, took, start_ns. `slot`: the
    number of its device among those used, so that a program may run on other devices of the same kind next time."""
    gpu_work, meaning = work(profile, _BY_MEANING), of_devices(profile)
    layer = pl.Series("layer", meaning.forests["layer"].paths())
    names = {int(phase): name for phase, name in NAMES.items()}
    sites = gpu_work.sites.select(
        "process",
        "device",
        "kind",
        "name",
        pl.col("readable", "detailed").fill_null(""),
        phase=pl.col("phase").replace_strict(names, default="", return_dtype=pl.String),
        layer=layer.gather(gpu_work.sites["layer"]),
    )
    numbers = {device: number for number, device in enumerate(used_devices(profile))}
    sites = sites.with_columns(slot=pl.col("device").replace_strict(numbers, default=len(numbers), return_dtype=pl.Int64))
    executions = gpu_work.executions
    took = executions["end_ns"].cast(pl.Int64) - executions["start_ns"].cast(pl.Int64)
    rows = sites[executions["site"]].with_columns(
        took=took, start_ns=executions["start_ns"].cast(pl.Int64), step=executions["step"].cast(pl.Int64)
    )
    ordered = rows.with_row_index("row").sort("process", "start_ns", "row")
    before = ordered.with_columns(place=pl.col("row").cum_count().over("process", "step", *LAYER_KEY).cast(pl.Int64) - 1)
    numbered = (pl.col("step") >= 0) & (pl.col("place") < _MOST_PLACES)
    return before.with_columns(place=pl.when(numbered).then("place").otherwise(UNKNOWN)).sort("row").drop("row", "step")


def steps(profile: Analysis) -> int:
    """How many steps the program had, in all its processes."""
    return len(of_devices(profile).steps.select("process", "step").unique())


def used_devices(profile: Analysis) -> list[str]:
    """The devices on which anything ran, those of a model in the order of their numbers."""
    names = {
        *profile.table("kernel_shapes")["device"].unique(),
        *profile.scan("copies").select(pl.col("device").unique()).collect()["device"],
    }
    return sorted(names - {""}, key=lambda name: (model(name), number_of(name)))


def model(device: str) -> str:
    """`NVIDIA H200 [0]` → `NVIDIA H200`"""
    return re.sub(r" \[\d+\]$", "", device)


def number_of(device: str) -> int:
    number = re.search(r" \[(\d{1,8})\]$", device)
    return int(number[1]) if number is not None else -1
