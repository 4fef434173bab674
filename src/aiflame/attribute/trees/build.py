"""The tree of a profile for a metric, a grouping and a depth."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from aiflame.attribute.analysis import Analysis
from aiflame.attribute.counters.intervals import counted_metrics
from aiflame.attribute.counters.names import COUNTED, is_counted
from aiflame.attribute.energy.power import CPUS, GPUS, measured
from aiflame.attribute.groupings import CATEGORY, FAMILY, OF_TREES, PREFIXES, RANK, REGROUPS
from aiflame.attribute.limits.kernels import has_limits
from aiflame.attribute.memory.metrics import AT_A_MOMENT, OF_MEMORY, base_name
from aiflame.attribute.metrics import CLOCK, DETAILS, METRICS, SAMPLED, metric_row, on_devices
from aiflame.attribute.prefixes import Prefix, in_steady_steps
from aiflame.attribute.stacks.own_metrics import metric_rows, own_metrics
from aiflame.attribute.transforms.filters import without_idle
from aiflame.attribute.transforms.grouping import group
from aiflame.attribute.tree import BYTES, COULD_WIN, CPU_TIME, ENERGY, GPU_LATENCY, GPU_STALLS, GPU_TIME, Tree
from aiflame.attribute.trees.cpu_energy import cpu_energy_tree
from aiflame.attribute.trees.cpu_tree import cpu_tree
from aiflame.attribute.trees.device_tree import bytes_tree, could_win_tree, counters_tree, energy_tree, samples_tree, time_tree
from aiflame.attribute.trees.how_to_record import how_to_record, is_empty, why_empty
from aiflame.attribute.trees.rank_groups import by_rank
from aiflame.attribute.trees.steady_part import steady_part
from aiflame.errors import AiflameError
from aiflame.profile.tables.interface import Tables


def tree(profile: Tables, metric: str | None = None, by: str = "code", detail: str | None = None, *, steady: bool = False) -> Tree:
    """The calling-context tree of one metric, with every frame as recorded. By default the metric is `default_metric`, and the detail is
    the metric's.

    `by` is one of `groupings.OF_TREES`. `steady`: only work in steady steps (`meaning.steady`), without idle time; memory at a moment
    belongs to no steps.
    """
    profile = Analysis.of(profile)
    metric = metric or default_metric(profile)
    rows = metric_rows(profile)
    _require("metric", metric, rows)
    _require("grouping", by, OF_TREES)
    detail = detail or rows[metric].detail
    _require("detail", detail, DETAILS)
    there = metrics(profile)
    if base_name(metric) not in there:
        if not there:
            raise AiflameError(f"this profile has no {metric}, nor anything else: {why_empty(profile)}")
        raise AiflameError(f"this profile has no {metric}, only {', '.join(there)}: for {metric}, {how_to_record(profile, metric)}")
    if by == CATEGORY and base_name(metric) not in OF_MEMORY:
        raise AiflameError(f"categories group memory, and {metric} counts none: use --metric {' or '.join(AT_A_MOMENT)}")
    if by == FAMILY and (not on_devices(metric) or GPU_TIME.name not in there):
        raise AiflameError(
            f"families group GPU kernels, and {metric} is not measured on them: use --metric {GPU_TIME.name}, or another grouping"
        )
    if steady and base_name(metric) not in AT_A_MOMENT:
        raw = without_idle(steady_part(_raw(profile, metric, detail, in_steady_steps(PREFIXES.get(by)))))
    else:
        raw = _raw(profile, metric, detail, PREFIXES.get(by))
    if by == RANK:
        return by_rank(raw, profile)
    return group(raw, by) if by in REGROUPS else raw


def tree_with_meaning(profile: Tables, metric: str, prefix: Prefix, detail: str) -> Tree:
    """The tree of a metric that the profile has, by code, with frames of meaning between the processes and their code."""
    return _raw(profile, metric, detail, prefix)


def default_metric(profile: Tables) -> str:
    """GPU time where kernels ran, else time of threads, else the first of the profile's own metrics, else CPU time."""
    there = metrics(profile)
    if GPU_TIME.name in there and not is_empty(profile, "kernels"):
        return GPU_TIME.name
    return next((name for name in (*CLOCK, *own_metrics(profile)) if name in there), CPU_TIME.name)


def metrics(profile: Tables) -> list[str]:
    """The metrics for which the profile has values. A damaged table counts as having values: reading it reports the error."""
    try:
        clocks = set(profile.scan("cpu_samples").select(pl.col("clock").unique()).collect()["clock"])
    except AiflameError:
        clocks = {CLOCK[CPU_TIME.name]}
    there = [name for name, clock in CLOCK.items() if clock in clocks]
    copied = not is_empty(profile, "copies")
    if has_executions := copied or not is_empty(profile, "kernels"):
        there.append(GPU_TIME.name)
    if not is_empty(profile, "gpu_samples"):
        there += [GPU_STALLS.name, GPU_LATENCY.name]
    if copied:
        there.append(BYTES.name)
    if measured(profile, *GPUS) if has_executions else CPU_TIME.name in there and measured(profile, CPUS):
        there.append(ENERGY.name)
    there += _counted(profile)
    if has_executions and has_limits(profile):
        there.append(COULD_WIN.name)
    return [*there, *own_metrics(profile)]


def _counted(profile: Tables) -> list[str]:
    try:
        return counted_metrics(profile)
    except AiflameError:
        return list(COUNTED)


def _raw(profile: Tables, metric: str, detail: str, by: Prefix | None) -> Tree:
    if metric == GPU_TIME.name:
        return time_tree(profile, detail, by)
    if metric == COULD_WIN.name:
        return could_win_tree(profile, detail, by)
    if metric == BYTES.name:
        return bytes_tree(profile, by)
    if metric in SAMPLED:
        return samples_tree(profile, METRICS[metric], detail, by)
    if is_counted(metric):
        return counters_tree(profile, metric_row(metric).metric, detail, by)
    if metric == ENERGY.name:
        return energy_tree(profile, detail, by) if GPU_TIME.name in metrics(profile) else cpu_energy_tree(profile, detail, by)
    return cpu_tree(profile, metric_rows(profile)[metric].metric, detail, by)


def _require(kind: str, name: str, choices: Iterable[str]) -> None:
    if name not in choices:
        raise AiflameError(f"unknown {kind} {name!r}: use {', '.join(choices)}")
