"""The measurements of one recorded run: small values, so that many profiles can be compared without keeping them open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from aiflame.analyze.device.occupancy import occupancy
from aiflame.analyze.device.profile_analysis import ProfileAnalysis, profile_analysis
from aiflame.analyze.diff.per_step import Values, line_name, of_rows, values
from aiflame.analyze.gate.code import Code, code_of, file_end, root_names
from aiflame.analyze.gate.machine import Machine, machine_of
from aiflame.analyze.gate.noise import blocks, sampling_error
from aiflame.analyze.overview.scope_line import host_steps
from aiflame.analyze.step_times import steady, step_times
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.metrics import CLOCK
from aiflame.attribute.tree import CPU_TIME, GPU_TIME, WALL_TIME
from aiflame.attribute.trees.build import default_metric, metrics
from aiflame.profile.folder.meta import Meta
from aiflame.profile.tables.interface import OpenedProfile, Tables
from aiflame.values import dataclass

WHOLE = ""
"""The item of a metric with a single value."""
MOST_ITEMS = 200
"""The most items of each grouping that are kept, the heaviest."""
_STATES = ("busy", "communication", "copies")


@dataclass(frozen=True, slots=True)
class Measured:
    """Times in nanoseconds."""

    total: float
    """The value in the whole run."""
    step: float | None = None
    """The mean of a step, without the first step of each process; None if the run has no steps."""
    blocks: tuple[float, ...] = ()
    """The same for stretches of steps (`noise.blocks`)."""
    error: float = 0.0
    """Relative standard error from the number of its samples; 0 for exact values."""


@dataclass(frozen=True, slots=True)
class Place:
    layer: str = ""
    line: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    main: str
    """The metric of its kernels, functions, layers and lines: gpu-time if kernels ran."""
    steps: int
    """Number of steps, without the first of each process."""
    values: Mapping[tuple[str, str], Measured]
    """By metric and item."""
    places: Mapping[tuple[str, str], Place]
    """The place of most of a layer's time, and of most of a kernel's launches."""
    compiled: Mapping[str, str]
    """Names of kernels as compiled, by their short names."""
    machine: Machine
    code: Code
    meta: Meta


def measure(profile: OpenedProfile, name: str) -> Run:
    analysis = profile_analysis(Analysis.of(profile))
    main = default_metric(profile)
    lengths = steady(step_times(host_steps(analysis), analysis.per_step))["took"].to_numpy().astype(np.float64)
    roots = root_names(profile)
    measured = dict(_wholes(analysis, profile.meta, lengths)) | dict(_parts(analysis, main, roots))
    compiled = dict(analysis.sites.select("short", "name").unique().sort("short", "name").rows())
    counts = Counter(compiled.values())
    shorts = {name: short if counts[name] == 1 else name for short, name in compiled.items()}
    return Run(
        name,
        main,
        len(lengths),
        measured,
        _places(analysis, main, roots),
        compiled,
        machine_of(profile, profile.meta),
        code_of(profile, shorts),
        profile.meta,
    )


def _wholes(analysis: ProfileAnalysis, meta: Meta, lengths: NDArray[np.float64]) -> Iterator[tuple[tuple[str, str], Measured]]:
    if meta.ended is not None and meta.ended.monotonic_ns > meta.started.monotonic_ns:
        yield ("elapsed", WHOLE), Measured(float(meta.ended.monotonic_ns - meta.started.monotonic_ns))
    if len(lengths):
        median = float(np.median(lengths))
        yield ("step", WHOLE), Measured(median, median, blocks(lengths, median=True))
    there = metrics(analysis.profile)
    if CPU_TIME.name in there:
        yield ("cpu", WHOLE), _of_samples(analysis, CPU_TIME.name, pl.lit(True))
    if WALL_TIME.name in there:
        yield ("waiting", WHOLE), _of_samples(analysis, WALL_TIME.name, (pl.col("waits") != "") & _on_main_threads(analysis.profile))
    if analysis.ran_on_devices:
        per_step = steady(analysis.per_step).group_by("process", "step").agg(pl.col(*_STATES, "idle").sum()).sort("process", "step")
        whole = occupancy(analysis, analysis.devices, analysis.per_step)
        busy = sum(device.busy_ns + device.communication_ns + device.copies_ns for device in whole)
        yield ("gpu", WHOLE), _measured(busy, per_step.select(pl.sum_horizontal(_STATES)).to_series().to_numpy())
        yield ("gpu-idle", WHOLE), _measured(sum(device.idle_ns for device in whole), per_step["idle"].to_numpy())


def _parts(analysis: ProfileAnalysis, main: str, roots: Collection[str]) -> Iterator[tuple[tuple[str, str], Measured]]:
    on_devices = main == GPU_TIME.name
    clock = main if not on_devices else CPU_TIME.name if CPU_TIME.name in metrics(analysis.profile) else ""
    groupings = values(analysis, main, ("kernel", "layer", "line") if on_devices else ("layer", "line"))
    if clock:
        groupings["function"] = _functions(analysis, clock, roots)
    count, whole = _samples(analysis, clock) if clock else (0, 0.0)
    for by, items in groupings.items():
        sampled = by == "function" or not on_devices
        for item, total, row in zip(items.names[:MOST_ITEMS], items.total, items.steps, strict=False):
            error = sampling_error(float(total) / whole, count) if sampled and count else 0.0
            yield (by, _without_root(item, roots) if by == "line" else item), _measured(float(total), row, error)


def _functions(analysis: ProfileAnalysis, metric: str, roots: Collection[str]) -> Values:
    """By the function of the innermost line that the program's author wrote, if there is one: the interpreter's functions below are many,
    with few samples each."""
    rows = analysis.of_clock(metric).rows.select(
        "process",
        pl.col("step").cast(pl.Int64),
        "value",
        "waits",
        "function",
        "caller",
        "file",
    )
    ends = {file: file_end(file, roots) for file in rows["file"].unique().to_list()}
    rows = rows.with_columns(pl.col("file").replace_strict(ends, return_dtype=pl.String))
    python = pl.when(pl.col("caller") != "").then(pl.format("{} ({})", "caller", "file"))
    named = rows.with_columns(name=pl.coalesce(pl.col("waits").replace("", None), python, "function")).filter(pl.col("name") != "")
    return of_rows(named, analysis.of_clock(metric).steps)


def _samples(analysis: ProfileAnalysis, metric: str) -> tuple[int, float]:
    """The number of samples, and the time for which they stand."""
    of_clock = analysis.profile.scan("cpu_samples").filter(pl.col("clock") == CLOCK[metric])
    count = int(of_clock.select(pl.col("weight").cast(pl.Int64).sum()).collect().item())
    return count, max(float(analysis.of_clock(metric).total), 1.0)


def _of_samples(analysis: ProfileAnalysis, metric: str, chosen: pl.Expr) -> Measured:
    facts = analysis.of_clock(metric)
    rows = facts.rows.filter(chosen)
    steps = steady(facts.steps.select(pl.col("process", "step").cast(pl.Int64))).sort("process", "step")
    in_steps = rows.group_by(pl.col("process", "step").cast(pl.Int64)).agg(pl.col("value").sum())
    each = steps.join(in_steps, on=["process", "step"], how="left", maintain_order="left")["value"].fill_null(0)
    return _measured(float(rows["value"].sum()), each.to_numpy())


def _on_main_threads(profile: Tables) -> pl.Expr:
    """Selects rows of main threads. Threads of a pool wait whenever they have no work, which does not show speed."""
    threads, processes = profile.table("threads"), profile.table("processes").select("process", tid="pid")
    main = threads.join(processes, on=["process", "tid"]).select(pl.col("process", "id").cast(pl.Int64))
    keys = (main["process"] * (1 << 32) + main["id"]).implode()
    return (pl.col("process").cast(pl.Int64) * (1 << 32) + pl.col("thread").cast(pl.Int64)).is_in(keys)


def _measured(total: float, steps: NDArray[np.number], error: float = 0.0) -> Measured:
    if not len(steps):
        return Measured(total, error=error)
    each = steps.astype(np.float64)
    return Measured(total, float(each.mean()), blocks(each, median=False), error)


def _places(analysis: ProfileAnalysis, main: str, roots: Collection[str]) -> Mapping[tuple[str, str], Place]:
    if main in CLOCK:
        rows = analysis.of_clock(main).rows.select("layer", "value", line=line_name())
        kinds: tuple[str, ...] = ("layer",)
    else:
        rows = analysis.sites.select("layer", kernel="short", value="took", line=line_name())
        kinds = ("kernel", "layer")
    places = {}
    for kind in kinds:
        other = "" if kind == "layer" else "layer"
        keys = [kind, "line", *([other] if other else [])]
        summed = rows.group_by(keys).agg(pl.col("value").sum()).sort("value", *keys, descending=[True, *([False] * len(keys))])
        for row in summed.unique(kind, keep="first", maintain_order=True).head(MOST_ITEMS).iter_rows(named=True):
            places[kind, row[kind]] = Place(row.get("layer", "") if other else "", _without_root(row["line"], roots))
    return places


def _without_root(line: str, roots: Collection[str]) -> str:
    """`train.py:12` for `base/train.py:12`, if the program was started in `base`."""
    file, colon, number = line.rpartition(":")
    return f"{file_end(file, roots)}{colon}{number}"
