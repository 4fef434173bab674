"""The meaning of calls in a trace: Python functions, torch's ops and modules, calls of runtimes, annotations."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np
import polars as pl

from aiflame.attribute.arrays import nodes
from aiflame.attribute.arrays.types import Mask, Whole
from aiflame.exchange.readers.chrome.events import Events
from aiflame.exchange.readers.frames import AnyFrame, Frames, LayerFrame, NamedFrame, PythonFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.spans import Spans
from aiflame.profile.schema.enums import RegionApi, RegionKind
from aiflame.profile.schema.kinds import OP_MODULE, Kind
from aiflame.values import dataclass

OPS = ("cpu_op", "Operator", "operator")
PYTHON = ("python_function", "PythonFunction")
ANNOTATIONS = ("user_annotation", "UserAnnotation")
RUNTIMES = ("cuda_runtime", "cuda_driver", "Runtime", "hip_runtime", "hip_driver", "xpu_runtime", "xpu_driver", "privateuse1_runtime")
"""Categories of calls that launch work of devices."""

_PYTHON_NAME = re.compile(r"(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)", re.DOTALL)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+(?=>$)")
"""Of `<built-in method append of list object at 0x7f2b5c3e8a40>`, which would be another function for each list."""
_MODULE = "nn.Module: "
_WAITS = re.compile(r"(Synchronize|WaitEvent|zeEventHostSynchronize|zeFenceHostSynchronize)")
_BUILT_IN_WAITS = re.compile(
    r"<(built-in (function|method)|method) '?(sleep|acquire(_lock)?|poll|select|recv(_into|from|msg)?|accept|waitpid|wait4|waitid|fsync)\b"
)
_OPTIMIZER_STEP = re.compile(r"Optimizer\.step#(?P<optimizer>.+)\.step")
_NAMED_STRETCH = r"^(ProfilerStep#\d+|Optimizer\.(step|zero_grad)#.*|enumerate\(DataLoader\)#.*)$"
_AT_ONCE = 1 << 18
"""Calls that are joined to their frames in one piece."""
_DATA = re.compile(r"enumerate\(DataLoader\)#")


def is_annotation(events: Events, calls: pl.DataFrame) -> pl.Series:
    """True for stretches of time that the program named itself. Old versions of torch write them as ops."""
    names = calls["name"].unique()
    named = names.filter(events.texts_of(names).str.contains(_NAMED_STRETCH))
    return events.texts_of(calls["cat"]).is_in(ANNOTATIONS) | calls["name"].is_in(named.implode())


def is_python(events: Events, calls: pl.DataFrame) -> pl.Series:
    """True for functions of Python, and calls of modules."""
    kinds = calls["cat"].unique()
    return calls["cat"].is_in(kinds.filter(events.texts_of(kinds).is_in(PYTHON)).implode())


@dataclass(frozen=True, slots=True)
class CallKinds:
    frame: Whole
    """Of each call."""
    waits: Mask
    """By frame: a thread in it only waits."""
    named: Mask
    """By frame: it is an op, or a call of a runtime or of C; no Python function and no module."""
    layers: dict[str, int]
    """The row of each torch module's instance in `layers`: `Linear_0`."""
    layer: Whole
    """By frame, its row of `layers`; 0 for other frames."""

    def innermost_layer(self, spans: Spans) -> Whole:
        """For each call the row of `layers` of the innermost module around it, 0 for none."""
        row = self.layer[spans.frame]
        around = spans.nearest(row > 0)
        return np.where(around >= 0, row[np.maximum(around, 0)], 0)


def frames_of(events: Events, calls: pl.DataFrame, frames: Frames) -> CallKinds:
    """The frame of each call, by its category and name."""
    kinds = calls.select("cat", "name").unique(maintain_order=True)
    category, name = events.texts_of(kinds["cat"]).to_list(), events.texts_of(kinds["name"]).to_list()
    layers: dict[str, int] = {}
    numbers = [frames.number(_frame(*pair, layers)) for pair in zip(category, name, strict=True)]
    numbered = kinds.with_columns(frame=pl.Series(numbers, dtype=pl.Int32))
    pieces = [
        piece.join(numbered, on=["cat", "name"], how="left", maintain_order="left").select("frame")
        for piece in calls.select("cat", "name").iter_slices(_AT_ONCE)
    ]
    waits = np.array([isinstance(frame, NamedFrame) and _only_waits(frame.name) for frame in frames.all], dtype=np.bool_)
    named = np.array([isinstance(frame, NamedFrame) for frame in frames.all], dtype=np.bool_)
    rows = np.array([frame.layer if isinstance(frame, LayerFrame) else 0 for frame in frames.all], dtype=np.int64)
    of_calls = pl.concat([pl.DataFrame(schema={"frame": pl.Int32}), *pieces])["frame"]
    return CallKinds(of_calls.to_numpy(), waits, named, layers, rows)


def _only_waits(name: str) -> bool:
    """Whether a thread in such a call does nothing else."""
    return bool(_WAITS.search(name) or _BUILT_IN_WAITS.match(name))


def _frame(category: str, name: str, layers: dict[str, int]) -> AnyFrame:
    if category in PYTHON:
        if name.startswith(_MODULE):
            return LayerFrame(layers.setdefault(name.removeprefix(_MODULE), len(layers) + 1))
        if place := _PYTHON_NAME.fullmatch(name):
            return PythonFrame(place["function"], place["file"], int(place["line"]) % (1 << 32))
        return NamedFrame(_ADDRESS.sub("", name), Kind.C)
    if category in OPS:
        return NamedFrame(name, Kind.CPP, module=OP_MODULE)
    return NamedFrame(name, Kind.C, module=category)


def add_layers(making: Making, kinds: CallKinds, spans: Spans) -> None:
    """Writes the modules that the trace shows, and where each hangs: a module inside of whose call it was called is its parent."""
    rows = kinds.layer[spans.frame]
    at = np.flatnonzero(rows)
    if not len(at):
        return
    names = {row: name for name, row in kinds.layers.items()}
    outer = spans.nearest(rows > 0, strict=True)[at]
    place = np.where(outer >= 0, np.searchsorted(at, np.maximum(outer, 0)), -1)
    process = spans.process[at]
    own = process << 32 | rows[at]
    distinct, which = np.unique(own, return_inverse=True)
    parent, module, _ = nodes.merge_siblings(
        np.concatenate([[-1], place + 1]).astype(np.int32), np.concatenate([[0], which + 1]).astype(np.uint32)
    )
    seen = pl.DataFrame({"own": own, "seen_ns": spans.begin[at]}).group_by("own").agg(pl.col("seen_ns").min()).sort("own")
    making.add(
        "layers",
        pl.DataFrame(
            {
                "process": distinct >> 32,
                "id": distinct & 0xFFFFFFFF,
                "address": distinct & 0xFFFFFFFF,
                "type": [_class(names[row]) for row in (distinct & 0xFFFFFFFF).tolist()],
                "seen_ns": seen["seen_ns"],
            }
        ),
    )
    paths: list[tuple[int, str]] = [(-1, "")]
    instances = [names[int(distinct[number - 1]) & 0xFFFFFFFF] for number in module[1:].tolist()]
    own_names = _names_in_parents(parent[1:].tolist(), instances)
    hang = []
    for above, number, name in zip(parent[1:].tolist(), module[1:].tolist(), own_names, strict=True):
        key = int(distinct[number - 1])
        owner, row = key >> 32, key & 0xFFFFFFFF
        root, path = paths[above]
        paths.append((row, "") if root < 0 else (root, f"{path}.{name}" if path else name))
        hang.append((owner, row, *paths[-1], _class(names[row])))
    schema = {"process": pl.Int64, "layer": pl.Int64, "root": pl.Int64, "path": pl.String, "type": pl.String}
    making.add("layer_names", pl.DataFrame(hang, schema=schema, orient="row").unique(maintain_order=True))


def _names_in_parents(parent: Sequence[int], instances: Sequence[str]) -> list[str]:
    """The name of each module in its parent. `Attention_7` is `Attention` where the parent calls no other of its class. Otherwise they are
    numbered as torch numbers them: `Block.0`, `Block.1` … if they call modules themselves, and are compared with each other, as those of a
    ModuleList in a recording are; `Linear_0`, `Linear_1` … if not: their tasks differ. `parent`: rows, counted from 1."""
    calls = set(parent)
    alike: dict[tuple[int, str], list[int]] = {}
    for row, key in enumerate(zip(parent, map(_class, instances), strict=True)):
        alike.setdefault(key, []).append(row)
    names = [""] * len(instances)
    for (_, name), rows in alike.items():
        for number, row in enumerate(sorted(rows, key=lambda row: (len(instances[row]), instances[row]))):
            names[row] = name if len(rows) == 1 else f"{name}{'.' if row + 1 in calls else '_'}{number}"
    return names


def _class(instance: str) -> str:
    """`Linear_0` → `Linear`"""
    name, _, number = instance.rpartition("_")
    return name if name and number.isdecimal() else instance


def add_regions(making: Making, events: Events, annotated: pl.DataFrame) -> None:
    """Writes annotations as regions. Where torch's optimizers and data loaders ran, aiflame sees that itself in a recording."""
    if annotated.is_empty():
        return
    names = annotated["name"].unique(maintain_order=True)
    meaning = [_region(text) for text in events.texts_of(names).to_list()]
    columns = {"name": names, **{key: [row[at] for row in meaning] for at, key in enumerate(("api", "domain", "text", "payload"))}}
    rows = annotated.join(pl.DataFrame(columns, schema_overrides={"payload": pl.UInt64}), on="name", how="left", maintain_order="left")
    rows = making.numbered("regions", rows)
    making.add(
        "regions",
        rows.select(
            "process", "id", "thread", "api", "domain", "payload", name="text", kind=pl.lit(int(RegionKind.NESTED)), begin_ns="begin"
        ),
    )
    making.add("region_ends", rows.select("process", "thread", region="id", end_ns="end"))


def region_name(text: str) -> str:
    """The name of the region of an annotation."""
    return _region(text)[2]


def _region(text: str) -> tuple[int, str, str, int]:
    if step := _OPTIMIZER_STEP.fullmatch(text):
        return int(RegionApi.AUTOMATIC), "aiflame", "optimizer", zlib.crc32(step["optimizer"].encode())
    if _DATA.match(text):
        return int(RegionApi.AUTOMATIC), "aiflame", "data", 0
    return int(RegionApi.TORCH), "", text, 0
