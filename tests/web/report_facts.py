"""Blocks of facts made by hand: sites, their paths and values, written as the report's page reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from aiflame.attribute.tree import Frame, Kind
from aiflame.render.blocks import block
from aiflame.render.colors import TONES

SEGMENTS = ("process", "alone", "code", "kernel", "phase", "layer", "op", "region", "family")
GROUPINGS = {
    "code": ("process", "alone", "code", "kernel"),
    "layer": ("process", "alone", "phase", "layer", "op", "kernel"),
    "region": ("process", "alone", "region", "code", "kernel"),
    "op": ("process", "alone", "op", "kernel"),
    "phase": ("process", "alone", "phase", "op", "kernel"),
    "family": ("process", "alone", "family", "kernel"),
}
BY_STEP = {"step": ("process", "alone", "step", "phase", "layer", "op", "kernel")}
UNITS = {"gpu-time": "ns", "bytes": "bytes", "cpu-time": "ns", "wall-time": "ns", "gpu-stalls": "samples", "gpu-latency": "samples"}
LABELS = {
    "gpu-time": "GPU time",
    "bytes": "bytes copied",
    "cpu-time": "CPU time",
    "wall-time": "wall-clock time",
    "gpu-stalls": "GPU samples",
    "gpu-latency": "GPU samples without an issue",
}

Path = Sequence[Frame]


@dataclass
class Leaf:
    """A part of a site's values, at a path inside its kernel or function."""

    values: Mapping[str, int]
    inside: Path = ()
    launches: int = 0


@dataclass
class Site:
    """Work launched from one place: a path in each segment."""

    paths: Mapping[str, Path]
    leaves: Sequence[Leaf]
    first: int = 0
    moments: Mapping[int, int] = field(default_factory=dict)
    """bin → how much of the first metric"""
    slots: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """(step's number, slot) → how much"""


@dataclass
class _Forest:
    rows: dict[tuple[int, int], int] = field(default_factory=dict)
    parent: list[int] = field(default_factory=lambda: [0])
    frame: list[int] = field(default_factory=lambda: [0])

    def node(self, path: Path, frames: dict[Frame, int]) -> int:
        at = 0
        for item in path:
            row = frames.setdefault(item, len(frames) + 1)
            below = self.rows.setdefault((at, row), len(self.parent))
            if below == len(self.parent):
                self.parent.append(at)
                self.frame.append(row)
            at = below
        return at


def facts(
    sites: Iterable[Site],
    metrics: Sequence[str] = ("gpu-time",),
    bins: int = 100,
    bin_ns: int = 1_000_000,
    window_ns: int = 0,
    period_log2: int = 0,
) -> bytes:
    """A block `facts.DOMAIN`."""
    sites = list(sites)
    frames: dict[Frame, int] = {}
    forests = {name: _Forest() for name in (*SEGMENTS, "inside")}
    columns: dict[str, list[int]] = {f"site.{name}": [] for name in SEGMENTS}
    leaves: dict[str, list[int]] = {name: [] for name in ("leaf.site", "leaf.inside", "leaf.launches", *(f"leaf.{m}" for m in metrics))}
    for number, site in enumerate(sites):
        for name in SEGMENTS:
            columns[f"site.{name}"].append(forests[name].node(site.paths.get(name, ()), frames))
        for leaf in site.leaves:
            leaves["leaf.site"].append(number)
            leaves["leaf.inside"].append(forests["inside"].node(leaf.inside, frames))
            leaves["leaf.launches"].append(leaf.launches)
            for metric in metrics:
                leaves[f"leaf.{metric}"].append(leaf.values.get(metric, 0))
    moments = sorted((at, group, amount) for group, site in enumerate(sites) for at, amount in site.moments.items())
    slots = [(group, step, slot, amount) for group, site in enumerate(sites) for (step, slot), amount in site.slots.items()]
    steps = sorted({step for _, step, _, _ in slots})
    numbers: dict[str, Sequence[int]] = {
        **columns,
        "site.first": [site.first for site in sites],
        "site.weight": [1] * len(sites),
        "site.group": list(range(len(sites))),
        **leaves,
        "moment.group": [group for _, group, _ in moments],
        "moment.bin": [at for at, _, _ in moments],
        f"moment.{metrics[0]}": [amount for _, _, amount in moments],
        "step.number": steps,
        "step.process": [1] * len(steps),
        "step.begin": [step * 1_000_000 for step in steps],
        "step.end": [(step + 1) * 1_000_000 for step in steps],
        "slot.group": [group for group, _, _, _ in slots],
        "slot.step": [steps.index(step) for _, step, _, _ in slots],
        "slot.slot": [slot for _, _, slot, _ in slots],
        f"slot.{metrics[0]}": [amount for _, _, _, amount in slots],
    }
    for name, forest in forests.items():
        numbers[f"{name}.parent"], numbers[f"{name}.frame"] = forest.parent, forest.frame
    block_head = head(metrics, bins, bin_ns, GROUPINGS | BY_STEP if steps else GROUPINGS)
    arrays = {name: np.array(values, dtype=np.int64) for name, values in numbers.items()}
    return block({**block_head, "window_ns": window_ns, "period_log2": period_log2}, {**frame_columns(list(frames)), **arrays})


def head(
    metrics: Sequence[str], bins: int = 100, bin_ns: int = 1_000_000, groupings: Mapping[str, Sequence[str]] = GROUPINGS
) -> dict[str, object]:
    return {
        "metrics": [{"name": name, "unit": UNITS[name], "label": LABELS[name]} for name in metrics],
        "moments": dict.fromkeys(metrics, metrics[0]),
        "segments": list(SEGMENTS),
        "contexts": ["phase", "layer", "op", "region", "family"],
        "groupings": [{"name": name, "label": name, "segments": list(segments)} for name, segments in groupings.items()],
        "bins": {"origin_ns": 0, "bin_ns": bin_ns, "count": bins},
        "slots": 100,
        "kinds": {int(kind): tone.label for kind, tone in TONES.items()},
        "notes": [],
    }


def frame_columns(frames: Sequence[Frame]) -> dict[str, pl.Series | np.ndarray]:
    """The columns of frames, row 0 unused."""
    files, modules = {"": 0}, {"": 0}
    file = [files.setdefault(frame.file, len(files)) for frame in frames]
    module = [modules.setdefault(frame.module, len(modules)) for frame in frames]
    return {
        "frame.name": pl.Series(["", *(frame.name for frame in frames)]),
        "frame.full": pl.Series(["", *(frame.full_name for frame in frames)]),
        "frame.kind": np.array([0, *(int(frame.kind) for frame in frames)]),
        "frame.file": np.array([0, *file]),
        "frame.module": np.array([0, *module]),
        "frame.line": np.array([0, *(frame.line for frame in frames)]),
        "file": pl.Series(list(files)),
        "module": pl.Series(list(modules)),
    }


def python(*names: str) -> tuple[Frame, ...]:
    return tuple(Frame(name, Kind.PYTHON, "/app/model.py", 10 + at) for at, name in enumerate(names))


def process(name: str = "train.py (7)") -> tuple[Frame, ...]:
    return (Frame(name, Kind.PROCESS),)


def kernel(name: str, full: str = "") -> tuple[Frame, ...]:
    return (Frame(name, Kind.GPU_KERNEL, full_name=full),)


def small() -> list[Site]:
    """By construction, in ns of GPU time: gemm 600 (of which mlp 400, attn 200), softmax 250 in attn, idle 150: 1000 in all.

    train.py → main → train → mlp → linear → gemm 400; attn → linear → gemm 200, attn → softmax 250; beside main: [GPU idle] 150.
    """
    layer = {name: (Frame("layers.0", Kind.LAYER), Frame(name, Kind.LAYER)) for name in ("mlp", "attn")}
    phase = (Frame("Forward", Kind.PHASE),)
    op = {name: (Frame(f"aten::{name}", Kind.OP),) for name in ("mm", "softmax")}
    line = (Frame("gemm.py:41", Kind.GPU_LINE, "/app/gemm.py", 41),)

    def site(names: tuple[str, ...], kernel_name: str, where: str, what: str, leaves: list[Leaf], **more: object) -> Site:
        paths = {
            "process": process(),
            "code": python("main", "train", *names),
            "kernel": kernel(kernel_name, f"void {kernel_name}<float>()"),
            "phase": phase,
            "layer": layer[where],
            "op": op[what],
            "family": (Frame("gemm" if kernel_name == "gemm" else "attention", Kind.FAMILY),),
        }
        return Site(paths, leaves, **more)  # type: ignore[arg-type]

    return [
        site(
            ("mlp", "linear"),
            "gemm",
            "mlp",
            "mm",
            [Leaf({"gpu-time": 300}, line, 3), Leaf({"gpu-time": 100}, (), 1)],
            first=30,
            moments={0: 100, 1: 300},
            slots={(1, 10): 100, (2, 10): 300},
        ),
        site(
            ("attn", "linear"),
            "gemm",
            "attn",
            "mm",
            [Leaf({"gpu-time": 200, "bytes": 0}, (), 2)],
            first=10,
            moments={2: 200},
            slots={(1, 50): 100, (2, 50): 100},
        ),
        site(("attn",), "softmax", "attn", "softmax", [Leaf({"gpu-time": 250}, (), 5)], first=20, moments={2: 250}, slots={(1, 60): 250}),
        Site({"process": process(), "alone": (Frame("[GPU idle]", Kind.GPU_IDLE),)}, [Leaf({"gpu-time": 150})], first=40, moments={1: 150}),
    ]


def large(nodes: int, seed: int = 7, names: int = 20_000) -> bytes:
    """A block with about so many nodes of code, 30 deep, each innermost function a site."""
    chance = np.random.default_rng(seed)
    depths = 30
    sizes = np.maximum(1, (np.arange(1, depths + 1) ** 2 * nodes / (np.arange(1, depths + 1) ** 2).sum()).astype(np.int64))
    starts = np.concatenate([[1], 1 + np.cumsum(sizes)])
    parent, frame = np.zeros(starts[-1], dtype=np.int64), np.zeros(starts[-1], dtype=np.int64)
    for depth in range(1, depths):
        parent[starts[depth] : starts[depth + 1]] = starts[depth - 1] + np.sort(chance.integers(0, sizes[depth - 1], sizes[depth]))
    frames = [Frame("train.py (7)", Kind.PROCESS), *(Frame(f"kernel_{at}", Kind.GPU_KERNEL) for at in range(200))]
    first = len(frames) + 1
    frames += [
        Frame(f"{'torch::' if at % 2 else ''}function_{at}", (Kind.PYTHON, Kind.CPP, Kind.C)[at % 3], f"/src/file_{at % 500}.py", at % 900)
        for at in range(names)
    ]
    # Siblings differ: their frames follow each other.
    frame[1:] = first + (chance.integers(0, names, starts[-1] - 1)[parent[1:]] + np.arange(1, starts[-1])) % names
    inner = np.setdiff1d(np.arange(1, starts[-1]), parent)
    count = len(inner)
    value = (chance.pareto(1.5, count) * 1000 + 1).astype(np.int64)
    zero = np.zeros(count, dtype=np.int64)
    columns: dict[str, pl.Series | np.ndarray] = dict(frame_columns(frames))
    for name in (*SEGMENTS, "inside"):
        columns[f"{name}.parent"], columns[f"{name}.frame"] = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        columns[f"site.{name}"] = zero
    columns["process.parent"], columns["process.frame"] = np.array([0, 0]), np.array([0, 1])
    columns["kernel.parent"], columns["kernel.frame"] = np.zeros(201, dtype=np.int64), np.concatenate([[0], np.arange(2, 202)])
    columns["code.parent"], columns["code.frame"] = parent, frame
    columns |= {
        "site.process": zero + 1,
        "site.code": inner,
        "site.kernel": 1 + chance.integers(0, 200, count),
        "site.first": chance.integers(0, 10**8, count),
        "site.weight": zero + 1,
        "site.group": np.arange(count),
        "leaf.site": np.arange(count),
        "leaf.inside": zero,
        "leaf.launches": zero + 1,
        "leaf.gpu-time": value,
    }
    return block(head(("gpu-time",)), columns, frozenset({"code.parent", "site.code", "leaf.site", "site.group"}))


def device() -> dict[str, bytes]:
    """The block of the small tree."""
    return {"facts.device": facts(small())}


def stacks(values: dict[str, int], kind: Kind = Kind.PYTHON) -> bytes:
    """`a;b` → value"""
    paths = {stack: tuple(Frame(name, kind) for name in stack.split(";")) for stack in values}
    return facts([Site({"code": paths[stack]}, [Leaf({"gpu-time": value}, (), 1)]) for stack, value in values.items()])
