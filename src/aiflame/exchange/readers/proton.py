"""Triton's Proton: a tree of scopes and kernels with the sums of each (`.hatchet`, JSON; `.hatchet_msgpack`, MsgPack).

The file has no moments. Kernels of a context stand one behind the other, each with the context's mean time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl

from aiflame.attribute.metrics import MOST_OWN
from aiflame.errors import AiflameError
from aiflame.exchange.readers.devices.trace import CALLS, CHAINS, KERNELS, VALUES, DeviceTrace, shaped
from aiflame.exchange.readers.devices.writing import write
from aiflame.exchange.readers.frames import AnyFrame, NamedFrame, PythonFrame
from aiflame.exchange.readers.making import Making
from aiflame.exchange.readers.msgpack import unpacked
from aiflame.exchange.readers.protobuf import DamagedError
from aiflame.exchange.readers.source import Source
from aiflame.profile.folder.meta import MOMENTS
from aiflame.profile.schema.enums import GpuApi
from aiflame.profile.schema.kinds import Kind

_MOST = 256 << 20
_MOST_KERNELS = 5_000_000
_MOST_VALUE = (1 << 62) - 1
_MOST_NS = 10**17
_TIME, _COUNT, _DEVICE, _DEVICE_TYPE = "time (ns)", "count", "device_id", "device_type"
_OF_KERNELS = (_TIME, _COUNT, _DEVICE, _DEVICE_TYPE)
_PYTHON = re.compile(r"(?P<file>.+):(?P<line>\d{1,9})@(?P<function>[^@]*)", re.DOTALL)
_DESCRIBED = re.compile(r"(?P<kernel>\w+) \[.*\]", re.DOTALL)
"""`matmul_kernel [M=8192, N=8192]`: a kernel whose launch the program described."""
_UNIT = re.compile(r"(?P<name>.+?) \((?P<unit>[^()]+)\)")
_APIS = {"HIP": GpuApi.HIP}
_PID = 1
_FIRST_NODE = re.compile(rb'\s*\[\s*\{\s*"(?:children|frame|metrics)"\s*:')

_FIRST_PACKED = b"\x92\x83\xa5frame\x82\xa4name"
"""Two parts, of which the first has three keys: the root's frame comes first."""


def is_one(head: bytes) -> bool:
    if head.startswith(_FIRST_PACKED):
        return True
    return bool(_FIRST_NODE.match(head)) and b'"metrics"' in head and b'"frame"' in head


def read(source: Source, making: Making, progress: Callable[[float], None]) -> None:
    data = source.whole(_MOST)
    try:
        given = unpacked(data) if data.startswith(_FIRST_PACKED) else json.loads(data, strict=False)
    except DamagedError as error:
        raise AiflameError(f"{source.path} is damaged: {error}") from None
    except (ValueError, RecursionError) as error:
        raise AiflameError(f"{source.path} is no whole JSON document: {str(error)[:100] or 'it is nested too deeply'}") from None
    roots = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    trees = [one for one in roots if "frame" in one]
    facts = next((one for one in roots if "frame" not in one), {})
    _Tree(making).read(trees, facts)


class _Tree:
    def __init__(self, making: Making) -> None:
        self._making = making
        self._nodes: list[tuple[int, int]] = []
        """Row of the parent (-1: none), and frame."""
        self._kernels: list[dict[str, Any]] = []
        self._values: list[tuple[int, int, int, int, int]] = []
        self._kinds: dict[tuple[str, str], int] = {}
        self._odd = 0

    def read(self, trees: list[dict[str, Any]], facts: dict[str, Any]) -> None:
        self._making.lacks = (MOMENTS, "CPU time", "shapes of kernels", "copies")
        api = GpuApi.CUDA
        trace = DeviceTrace(api, processes={_PID: "Proton"})
        for row, metrics, name in self._walk(trace, trees):
            self._add(row, metrics, name)
        types = [str(kernel["type"]) for kernel in self._kernels]
        trace.api = _APIS.get(max(set(types), key=types.count), api) if types else api
        trace.chains = pl.DataFrame([(_PID, *node) for node in self._nodes], schema=CHAINS, orient="row")
        trace.values = pl.DataFrame(self._values, schema=VALUES, orient="row")
        trace.value_kinds = list(self._kinds)
        self._place(trace, facts)
        if self._odd:
            self._making.unused["metrics that are no number"] += self._odd
        write(trace, self._making)

    def _walk(self, trace: DeviceTrace, trees: list[dict[str, Any]]) -> Iterator[tuple[int, dict[str, Any], str]]:
        waiting: list[tuple[int, Any]] = [(-1, tree) for tree in reversed(trees)]
        while waiting:
            parent, node = waiting.pop()
            if not isinstance(node, dict):
                continue
            frame = node.get("frame")
            name = frame.get("name") if isinstance(frame, dict) else None
            name = name if isinstance(name, str) else "[no name]"
            row = len(self._nodes)
            self._nodes.append((parent, trace.frames.number(_frame(name))))
            metrics, children = node.get("metrics"), node.get("children")
            yield row, metrics if isinstance(metrics, dict) else {}, name
            waiting += [(row, child) for child in reversed(children)] if isinstance(children, list) else []

    def _add(self, row: int, metrics: dict[str, Any], name: str) -> None:
        took, count = _number(metrics.get(_TIME)), _number(metrics.get(_COUNT))
        if took or count:
            described = _DESCRIBED.fullmatch(name)
            kind = metrics.get(_DEVICE_TYPE, "CUDA")
            above = self._nodes[row][0]
            self._kernels.append(
                {
                    # a kernel that is the root is its own caller
                    "owner": row if described or above < 0 else above,
                    "name": described["kernel"] if described else name,
                    "took": min(took, _MOST_NS),
                    "count": max(count, 1),
                    "type": kind if isinstance(kind, str) else "GPU",
                    "number": str(metrics.get(_DEVICE, "0")),
                }
            )
        for of, value in metrics.items():
            if of in _OF_KERNELS:
                continue
            whole = _whole(value)
            if whole is None:
                self._odd += 1
            elif whole:
                self._values.append((_PID, row, self._kind(of), whole, -1))

    def _kind(self, metric: str) -> int:
        match = _UNIT.fullmatch(metric)
        unit = match["unit"] if match else "flops" if metric.startswith("flops") else metric if metric in ("bytes", "cycles") else ""
        key = (match["name"] if match else metric, unit)
        if key not in self._kinds and len(self._kinds) == MOST_OWN:
            raise AiflameError(f"the file has more than {MOST_OWN} metrics")
        return self._kinds.setdefault(key, len(self._kinds))

    def _place(self, trace: DeviceTrace, facts: dict[str, Any]) -> None:
        """The kernels of each device, in the order of the tree, and a call that launched those of each context."""
        if not self._kernels:
            return
        rows = pl.DataFrame(
            self._kernels,
            schema={"owner": pl.Int64, "name": pl.String, "took": pl.Int64, "count": pl.Int64, "type": pl.String, "number": pl.String},
            strict=False,
        )
        rows = rows.with_columns(correlation=pl.int_range(1, pl.len() + 1))
        if int(rows["count"].sum()) > _MOST_KERNELS:
            self._making.note(f"the file counts {int(rows['count'].sum()):,} launches: here those of a context are one")
            rows = rows.with_columns(count=pl.lit(1, dtype=pl.Int64))
        else:
            self._making.note("Proton's file has no moments: kernels stand one behind the other, each with the mean time of its context")
        devices = (
            rows.select("type", "number").unique(maintain_order=True).with_row_index("device").with_columns(pl.col("device").cast(pl.Int64))
        )
        trace.devices = {number: _device(kind, of, facts) for number, kind, of in devices.iter_rows()}
        names = rows["name"].unique(maintain_order=True)
        trace.names = dict(enumerate(names.to_list()))
        rows = rows.join(devices, on=["type", "number"], maintain_order="left").with_columns(
            name=pl.col("name").replace_strict(names, list(range(len(names))), return_dtype=pl.Int64),
            first=(pl.max_horizontal("took", "count").cum_sum().over("device") - pl.max_horizontal("took", "count")),
        )
        which = np.repeat(np.arange(len(rows)), rows["count"].to_numpy())
        each = rows[which].with_columns(place=pl.int_range(pl.len()).over("correlation"))
        begin, end = (pl.col("first") + _share(pl.col("place") + of) for of in (0, 1))
        trace.kernels = shaped(each.with_columns(pid=pl.lit(_PID), begin=begin, end=end), KERNELS)
        nodes = pl.DataFrame(self._nodes, schema={"chain": pl.Int64, "frame": pl.Int64}, orient="row")
        owners = nodes[rows["owner"]]
        calls = rows.with_columns(owners["frame"], owners["chain"], pid=pl.lit(_PID), tid=pl.lit(_PID), begin="first", end="first")
        trace.calls = shaped(calls, CALLS)


def _share(place: pl.Expr) -> pl.Expr:
    """The time of the first so many launches of a context; all of them together have the time of the context."""
    return pl.col("took") // pl.col("count") * place + pl.min_horizontal(place, pl.col("took") % pl.col("count"))


def _frame(name: str) -> AnyFrame:
    if place := _PYTHON.fullmatch(name):
        return PythonFrame(place["function"], place["file"], int(place["line"]))
    return NamedFrame(name, Kind.CPP, module="[Proton]")


def _device(kind: str, number: str, facts: dict[str, Any]) -> str:
    of_kind = facts.get(kind)
    of_device = of_kind.get(number) if isinstance(of_kind, dict) else None
    arch = of_device.get("arch") if isinstance(of_device, dict) else None
    text = f"{kind} {'sm_' if kind == 'CUDA' else ''}{arch}" if isinstance(arch, str) and arch else kind
    return f"{text} [{number}]"


def _number(value: object) -> int:
    return max(_whole(value) or 0, 0)


def _whole(value: object) -> int | None:
    """The nearest whole number that a table has room for; None for a value that is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or (isinstance(value, float) and math.isnan(value)):
        return None
    return round(max(min(value, _MOST_VALUE), -_MOST_VALUE))
