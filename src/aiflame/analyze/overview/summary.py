"""A summary of a profile: its programs, machine and duration; how busy its devices were; the main parts of the time."""

from __future__ import annotations

import shlex
from datetime import datetime, timezone

import polars as pl

from aiflame.analyze.device.occupancy import Occupancy, occupancy
from aiflame.analyze.device.profile_analysis import ProfileAnalysis, profile_analysis
from aiflame.analyze.overview.scope_line import ScopeLine, duration, host_steps, scope_line
from aiflame.analyze.scheduling import uneven_samples
from aiflame.analyze.step_times import Steps, over_all, step_times
from aiflame.attribute.analysis import Analysis
from aiflame.attribute.counters.intervals import counted_total
from aiflame.attribute.counters.names import is_counted
from aiflame.attribute.devices.samples import elsewhere
from aiflame.attribute.devices.stall_samples import samples_of_counter
from aiflame.attribute.metrics import CLOCK, SAMPLED
from aiflame.attribute.stacks.own_metrics import clocks, metric_rows, own_metrics
from aiflame.attribute.stacks.process_frames import short_command
from aiflame.attribute.stacks.samples import VALUE, samples_of
from aiflame.attribute.tree import BYTES, GPU_LATENCY, GPU_TIME
from aiflame.attribute.trees.build import default_metric, metrics, tree
from aiflame.profile.folder.meta import Meta
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.interface import Tables
from aiflame.values import dataclass

MOST_PARTS = 20
"""The most layers and programs in a summary; the tables have all."""


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    pid: int
    python: str
    """`3.12`, "" for a program without Python."""


@dataclass(frozen=True, slots=True)
class MetricTotal:
    name: str
    label: str
    unit: str
    total: int
    """The metric's total. GPU time counts kernels and copies, without idle time."""


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    value: int
    share: float
    """Share of the metric's total."""


@dataclass(frozen=True, slots=True)
class Summary:
    command: str
    started: str
    """ISO 8601 in UTC, "" if unknown."""
    duration_ns: int
    exit_status: int | None
    complete: bool
    host: str
    cpu: str
    cores: int
    system: str
    """The operating system: `Linux 6.1`."""
    aiflame: str
    """Version of aiflame that recorded it."""
    scope: ScopeLine
    programs: tuple[Program, ...]
    """The first MOST_PARTS programs."""
    processes: int
    threads: int
    devices: tuple[str, ...]
    notes: tuple[str, ...]
    """Failures to record or to read something."""
    metric: str
    """The metric of `phases` and `layers`, which cover the scope, and of `unattributed`; "" if there is none."""
    metrics: tuple[MetricTotal, ...]
    occupancy: tuple[Occupancy, ...]
    steps: Steps | None
    phases: tuple[Part, ...]
    layers: tuple[Part, ...]
    """Those with the most time; time in an inner layer does not count for the outer one."""
    unattributed: float
    """The share of the metric whose code is unknown."""
    estimated: bool
    """The time of fused kernels was divided over layers by an estimate."""


def _origin(meta: Meta) -> str:
    """Where an imported profile comes from, in the place of its command."""
    return f"{', '.join(meta.imported.files)}: {meta.imported.format}" if meta.imported is not None else ""


def summarize(profile: Tables, meta: Meta) -> Summary:
    profile = Analysis.of(profile)
    analysis = profile_analysis(profile)
    metric = default_metric(profile) if metrics(profile) else ""
    parts = _parts(analysis, metric)
    processes = profile.table("processes").sort("process")
    return Summary(
        command=shlex.join(meta.command) or _origin(meta),
        started=_started(meta),
        duration_ns=duration(meta, analysis),
        exit_status=meta.exit_status,
        complete=meta.complete,
        host=meta.host.name,
        cpu=meta.host.cpu,
        cores=meta.host.cores,
        system=meta.host.kernel,
        aiflame=meta.version,
        scope=scope_line(analysis, meta),
        programs=tuple(
            Program(short_command(command, exe), pid, f"{python >> 8}.{python & 0xFF}" if python else "")
            for pid, python, command, exe in processes.head(MOST_PARTS).select("pid", "python", "command", "exe").rows()
        ),
        processes=len(processes),
        threads=int(profile.scan("threads").select(pl.len()).collect().item()),
        devices=tuple(profile.table("kernel_shapes")["device"].unique().sort()),
        notes=tuple(
            filter(None, dict.fromkeys([*meta.degraded, *profile.table("notes")["text"].to_list(), uneven_samples(analysis.profile)]))
        ),
        metric=metric,
        metrics=tuple(_totals(analysis)),
        occupancy=tuple(occupancy(analysis, analysis.devices, analysis.per_step)),
        steps=over_all(step_times(host_steps(analysis), analysis.per_step)),
        phases=_largest(parts, "phase", None),
        layers=_largest(parts.filter(pl.col("layer") != ""), "layer", MOST_PARTS, int(parts["value"].sum())),
        unattributed=_unattributed(analysis, metric),
        estimated=analysis.fused if metric == GPU_TIME.name else bool(analysis.cpu and analysis.cpu.fused),
    )


def _parts(analysis: ProfileAnalysis, metric: str) -> pl.DataFrame:
    """phase, layer, value, in the scope"""
    if metric in own_metrics(analysis.profile):
        return pl.DataFrame(schema={"phase": pl.String, "layer": pl.String, "value": pl.Int64})
    if metric in CLOCK and analysis.scoped_cpu is not None:
        return analysis.scoped_cpu.rows.select("phase", "layer", "value")
    return analysis.scoped_shared.select("phase", "layer", value="took")


def _largest(parts: pl.DataFrame, by: str, most: int | None, whole: int | None = None) -> tuple[Part, ...]:
    summed = parts.group_by(by).agg(pl.col("value").sum()).filter(pl.col("value") > 0).sort("value", by, descending=[True, False])
    whole = whole or int(summed["value"].sum())
    return tuple(Part(name, value, value / whole) for name, value in summed.head(most or len(summed)).rows())


def _totals(analysis: ProfileAnalysis) -> list[MetricTotal]:
    profile, totals = analysis.profile, []
    of_threads, rows = clocks(profile), metric_rows(profile)
    for name in metrics(profile):
        metric = rows[name].metric
        if name in of_threads:
            total = int(samples_of(profile, of_threads[name]).select(pl.col(VALUE).sum()).collect().item())
        elif name == GPU_TIME.name:
            total = int(analysis.sites["took"].sum())
        elif name == BYTES.name:
            total = int(analysis.sites.filter(pl.col("kind") == int(Kind.GPU_COPY))["bytes"].sum())
        elif is_counted(name):
            total = counted_total(profile, name)
        elif name in SAMPLED:
            total = _samples(profile, latency=name == GPU_LATENCY.name)
        else:
            total = tree(profile, name).total(name)
        totals.append(MetricTotal(name, metric.label, metric.unit, total))
    return totals


def _samples(profile: Tables, *, latency: bool) -> int:
    total = int(samples_of_counter(profile, not_issued=latency).select(pl.col("count").sum()).collect().item())
    return total if latency else total + int(elsewhere(profile)["value"].sum())


def _unattributed(analysis: ProfileAnalysis, metric: str) -> float:
    """The share of GPU time without a launch, or of CPU time without a stack."""
    if metric in CLOCK and analysis.cpu is not None:
        rows, lost, value = analysis.cpu.rows, pl.col("stack") == 0, "value"
    else:
        rows, lost, value = analysis.work.sites, (pl.col("thread") < 0) & (pl.col("captured") == 0), "took"
    total = int(rows[value].sum()) if not rows.is_empty() else 0
    return int(rows.filter(lost)[value].sum()) / total if total else 0.0


def _started(meta: Meta) -> str:
    at = meta.started.realtime_ns
    return datetime.fromtimestamp(at // 1_000_000_000, timezone.utc).isoformat() if 0 < at < 1 << 62 else ""
