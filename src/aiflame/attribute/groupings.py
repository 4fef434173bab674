"""The groupings: a row for each property by which time can be grouped or listed.

A new grouping is a new row. Its columns say in which views it exists: trees (`flame`, `export`, the Python interface), lists (`top`), the
report's flame graph on devices and on CPUs, and comparisons (`diff`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from aiflame.attribute.metrics import Compared, MetricRow
from aiflame.attribute.prefixes import Prefix
from aiflame.profile.schema.kinds import Kind
from aiflame.values import dataclass, field

CODE, RANK, FAMILY, CATEGORY = "code", "rank", "family", "category"
ALONE, UNLAUNCHED = "alone", "unlaunched"
"""Segments of the report on devices: values directly under their process (idle time, samples without a launch), and `[unattributed: no
launch]`."""

_CODE_KINDS = (Kind.PYTHON, Kind.C, Kind.CPP, Kind.OS_KERNEL, Kind.GPU_KERNEL, Kind.GPU_COPY, Kind.GPU_IDLE)
_GPU = (Kind.GPU_KERNEL, Kind.GPU_COPY, Kind.GPU_IDLE)
_FUNCTIONS = (Kind.PYTHON, Kind.C, Kind.CPP, Kind.OS_KERNEL, *_GPU, Kind.WAIT, Kind.UNATTRIBUTED)


@dataclass(frozen=True, slots=True)
class Regroup:
    """Puts a tree's stacks under a frame for each group: a value belongs to the nearest frame of these kinds at or above it."""

    kinds: tuple[Kind, ...]
    name: pl.Expr
    """The group's name, from a frame."""


@dataclass(frozen=True, slots=True)
class Listed:
    """How `top` lists by this grouping."""

    kinds: tuple[Kind, ...]
    """Kinds of the frames that values are grouped by: a value belongs to the nearest such frame at or above it."""
    needed: tuple[Kind, ...] = ()
    """The tree must have a frame of one of these kinds; (): any tree will do."""
    lacking: str = ""
    """The reason to give if a profile has no such frame."""
    grouped: bool = False
    """The tree must be grouped by it."""
    heading: str = ""
    """Heading of the column of names, if it differs from the label."""
    path: str = ""
    """Lists whole paths of frames of the first kind, joined by this text."""


@dataclass(frozen=True, slots=True)
class GroupingRow:
    name: str
    label: str
    """Label in the report's list of groupings."""
    prefix: Prefix | None = None
    """Trees: frames between the process and the code, or in place of the code."""
    regroup: Regroup | None = None
    """Trees: the outermost frames, by which the code is grouped."""
    listed: Listed | None = None
    on_devices: tuple[str, ...] = ()
    """The report: segments of a site on devices, from the outermost."""
    on_cpus: tuple[str, ...] = ()
    """The same for CPU samples, and for blocks of memory: these alone have categories."""
    compared: Mapping[Compared, int] = field(default_factory=dict)
    """In comparisons: its rank among the groupings of each kind of metric, the most useful first."""

    @property
    def heading(self) -> str:
        """Heading of the column of names in a list."""
        return (self.listed and self.listed.heading) or self.label

    @property
    def of_trees(self) -> bool:
        return self.name in (CODE, RANK) or self.prefix is not None or self.regroup is not None


def _compared(devices: int = 0, samples: int = 0, copies: int = 0, cpus: int = 0) -> Mapping[Compared, int]:
    places = {Compared.DEVICES: devices, Compared.SAMPLES: samples, Compared.COPIES: copies, Compared.CPUS: cpus}
    return {kind: place for kind, place in places.items() if place}


GROUPING_ROWS = (
    GroupingRow("function", "Function", listed=Listed(_FUNCTIONS), compared=_compared(cpus=1)),
    GroupingRow(
        "kernel",
        "Kernel",
        listed=Listed(_GPU, (Kind.GPU_KERNEL, Kind.GPU_COPY), "no GPU kernel ran in it"),
        compared=_compared(devices=1, samples=1),
    ),
    GroupingRow("copy", "Copy", compared=_compared(copies=1)),
    GroupingRow(
        "stall",
        "Stall",
        listed=Listed(
            (Kind.GPU_STALL, Kind.GPU_COPY, Kind.GPU_IDLE), (Kind.GPU_STALL,), "no GPU instruction was sampled in it", heading="Waited for"
        ),
        compared=_compared(samples=2),
    ),
    GroupingRow(
        "line",
        "Line",
        listed=Listed((*_FUNCTIONS, Kind.CPU_LINE, Kind.GPU_LINE), (Kind.CPU_LINE, Kind.GPU_LINE), "no source line is known in it"),
        compared=_compared(devices=4, samples=4, copies=4, cpus=4),
    ),
    GroupingRow(CODE, "Code", on_devices=("process", ALONE, UNLAUNCHED, "code", "kernel"), on_cpus=("process", "code")),
    GroupingRow(
        "layer",
        "Layer",
        prefix=Prefix(("phase", "layer", "op")),
        listed=Listed((Kind.LAYER, Kind.GPU_IDLE), (Kind.LAYER,), "no layer of a model is known in it", grouped=True, path="."),
        on_devices=("process", ALONE, "phase", "layer", "op", UNLAUNCHED, "kernel"),
        on_cpus=("process", "phase", "layer", "op", "kernel"),
        compared=_compared(devices=3, samples=3, copies=3, cpus=3),
    ),
    GroupingRow(
        "step",
        "Step",
        prefix=Prefix(("step", "phase", "layer", "op")),
        listed=Listed((Kind.STEP, Kind.GPU_IDLE), (Kind.STEP,), "nothing in it clearly repeats", grouped=True),
    ),
    GroupingRow(
        "region",
        "Region",
        prefix=Prefix(("region",), code=True),
        listed=Listed((Kind.REGION, Kind.GPU_IDLE), (Kind.REGION,), "the program marked no region", grouped=True, path=" > "),
        on_devices=("process", ALONE, "region", UNLAUNCHED, "code", "kernel"),
        on_cpus=("process", "region", "code"),
    ),
    GroupingRow(
        "op",
        "Op",
        prefix=Prefix(("op",)),
        listed=Listed((Kind.OP, Kind.GPU_IDLE), (Kind.OP,), "no op of torch is known in it", grouped=True),
        on_devices=("process", ALONE, "op", UNLAUNCHED, "kernel"),
        on_cpus=("process", "op", "kernel"),
        compared=_compared(devices=2, samples=5, copies=2, cpus=2),
    ),
    GroupingRow(
        "phase",
        "Phase",
        prefix=Prefix(("phase", "op")),
        listed=Listed((Kind.PHASE, Kind.GPU_IDLE), (Kind.PHASE,), "it was not grouped by phase", grouped=True),
        on_devices=("process", ALONE, "phase", "op", UNLAUNCHED, "kernel"),
        on_cpus=("process", "phase", "op", "kernel"),
        compared=_compared(devices=5, samples=6, copies=5, cpus=5),
    ),
    GroupingRow(
        FAMILY,
        "Family of kernels",
        prefix=Prefix((FAMILY,)),
        listed=Listed((Kind.FAMILY, Kind.GPU_IDLE), (Kind.FAMILY,), "no GPU kernel ran in it", grouped=True, heading="Family"),
        on_devices=("process", ALONE, FAMILY, UNLAUNCHED, "kernel"),
        compared=_compared(devices=6, samples=7),
    ),
    GroupingRow(
        CATEGORY,
        "Category of memory",
        prefix=Prefix((CATEGORY, "layer"), code=True),
        listed=Listed((Kind.FAMILY,), (Kind.FAMILY,), "it has no blocks of memory", grouped=True, heading="Category"),
        on_cpus=("process", CATEGORY, "layer", "code"),
    ),
    GroupingRow("process", "Process", regroup=Regroup((Kind.PROCESS,), pl.col("name")), listed=Listed((Kind.PROCESS,))),
    GroupingRow("thread", "Thread", regroup=Regroup((Kind.THREAD,), pl.col("name")), listed=Listed((Kind.THREAD,))),
    GroupingRow(
        "module",
        "Module",
        regroup=Regroup(_CODE_KINDS, pl.when(pl.col("kind") == int(Kind.PYTHON)).then(pl.lit("Python")).otherwise("module")),
        listed=Listed(_FUNCTIONS),
    ),
    GroupingRow("file", "File", regroup=Regroup(_CODE_KINDS, pl.col("file"))),
    GroupingRow(
        "kind",
        "Kind",
        regroup=Regroup(_CODE_KINDS, pl.col("kind").replace_strict({int(kind): kind.name for kind in Kind}, return_dtype=pl.String)),
    ),
    GroupingRow(
        RANK,
        "Rank",
        listed=Listed((Kind.PROCESS,), (Kind.PROCESS,), "no process ran in it", grouped=True),
        on_devices=(RANK, ALONE, UNLAUNCHED, "code", "kernel"),
        on_cpus=(RANK, "code"),
    ),
)
GROUPINGS: Mapping[str, GroupingRow] = {row.name: row for row in GROUPING_ROWS}

OF_TREES = tuple(row.name for row in GROUPING_ROWS if row.of_trees)
PREFIXES: Mapping[str, Prefix] = {row.name: row.prefix for row in GROUPING_ROWS if row.prefix is not None}
REGROUPS: Mapping[str, Regroup] = {row.name: row.regroup for row in GROUPING_ROWS if row.regroup is not None}
LISTS: Mapping[str, Listed] = {row.name: row.listed for row in GROUPING_ROWS if row.listed is not None}


def compared_by(metric: MetricRow) -> Sequence[str]:
    """The groupings by which the values of a metric are compared, the most useful first; () where they are not compared step by step."""
    kind = metric.compared
    rows = [row for row in GROUPING_ROWS if kind in row.compared]
    return tuple(row.name for row in sorted(rows, key=lambda row: row.compared[kind])) if kind is not None else ()
