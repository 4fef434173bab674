"""The metrics: one row for each, with its properties for commands, the report and trees."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from aiflame.attribute.tree import (
    BYTES,
    COULD_WIN,
    CPU_TIME,
    DRAM_BYTES,
    ENERGY,
    GPU_LATENCY,
    GPU_STALLS,
    GPU_TIME,
    L2_BYTES,
    NVLINK_BYTES,
    PCIE_BYTES,
    SM_ACTIVITY,
    TENSOR,
    WALL_TIME,
    Metric,
)
from aiflame.values import dataclass

FUNCTION, LINE, INSTRUCTION, CALL_LINE = DETAILS = ("function", "line", "instruction", "call-line")
"""The depth of a tree's leaves. `call-line` on CPUs: lines, and each caller has the line of its call below it."""
MOST_OWN = 256
"""Metrics that a profile may name itself."""
WITH_IDLE = ", with idle time"
"""The end of a metric's label if idle time of devices is included."""


class Compared(Enum):
    """The kind of work whose values are compared, step by step, between two runs."""

    DEVICES = "kernels and copies"
    SAMPLES = "samples of warps, which record only their window of time: their place within a step is an estimate"
    COPIES = "copies"
    CPUS = "samples of threads"


@dataclass(frozen=True, slots=True)
class MetricRow:
    metric: Metric
    record: str = ""
    """How to record it; "" if that depends on the machine (`how_to_record`)."""
    clock: int | None = None
    """The clock of a metric of CPU samples."""
    on_devices: bool = True
    """Its values belong to kernels and copies. Energy has them where kernels ran, otherwise in CPU samples."""
    compared: Compared | None = None
    """None: not compared step by step."""
    moments: Metric | None = None
    """In the report, the metric that places values in time. None: the metric itself."""
    detail: str = FUNCTION
    """The default depth of its leaves: inside kernels if there are samples."""


_STALLS = (
    "record a CUDA program that runs for longer, or one on an Intel GPU, without --gpu-sampling off;"
    " `aiflame doctor` lists the requirements"
)
COUNTERS = "record with --gpu-counters on"
_ROWS = (
    MetricRow(CPU_TIME, "record without --cpu-rate 0", clock=0, on_devices=False, compared=Compared.CPUS),
    MetricRow(WALL_TIME, "record with --wall", clock=1, on_devices=False, compared=Compared.CPUS),
    MetricRow(GPU_TIME, "record a program that uses a GPU", compared=Compared.DEVICES),
    MetricRow(GPU_STALLS, _STALLS, compared=Compared.SAMPLES, detail=INSTRUCTION),
    MetricRow(GPU_LATENCY, _STALLS, compared=Compared.SAMPLES, moments=GPU_STALLS, detail=INSTRUCTION),
    MetricRow(BYTES, "record a program that copies memory to or from a GPU", compared=Compared.COPIES, moments=GPU_TIME),
    MetricRow(ENERGY, moments=GPU_TIME),
    *(MetricRow(metric, COUNTERS, moments=GPU_TIME) for metric in (DRAM_BYTES, L2_BYTES, PCIE_BYTES, NVLINK_BYTES, TENSOR, SM_ACTIVITY)),
    MetricRow(COULD_WIN, f"{COUNTERS}, on a device that docs/limits.md lists", moments=GPU_TIME),
)
METRIC_ROWS: Mapping[str, MetricRow] = {row.metric.name: row for row in _ROWS}

METRICS: Mapping[str, Metric] = {name: row.metric for name, row in METRIC_ROWS.items()}
OF_GPU = frozenset(name for name, row in METRIC_ROWS.items() if row.on_devices)
CLOCK: Mapping[str, int] = {name: row.clock for name, row in METRIC_ROWS.items() if row.clock is not None}
"""The metrics of CPU samples."""
SAMPLED = tuple(name for name, row in METRIC_ROWS.items() if row.compared is Compared.SAMPLES)
"""Metrics that count samples of warps."""
COMPARED = tuple(sorted((name for name, row in METRIC_ROWS.items() if row.compared), key=lambda name: name in CLOCK))
"""Metrics by which two runs can be compared step by step; metrics of devices first."""
_OWN = re.compile(r"[A-Za-z][\w.]{0,99}__\w{1,99}\.(sum|avg|max)", re.ASCII)


def is_own_counter(name: str) -> bool:
    """Whether it is the vendor's name of a counter that a user may have asked for (`--gpu-counters NAMES`): `smsp__inst_executed.sum`."""
    return _OWN.fullmatch(name) is not None


def metric_row(name: str) -> MetricRow:
    """A metric's row; that of a user's own counter is made here."""
    if is_own_counter(name):
        return MetricRow(Metric(name, "counts", name), f"record with --gpu-counters {name}", moments=GPU_TIME)
    return METRIC_ROWS[name]


def on_devices(name: str) -> bool:
    """Whether its values lie in kernels and copies."""
    return name in OF_GPU or is_own_counter(name)
