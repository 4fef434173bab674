"""A program of forward and backward work written down by hand, and the forward code that each item is traced to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from profiles import Row, native, sealed

from aiflame.attribute.meaning.backward import ForwardOf, origins
from aiflame.attribute.meaning.layers import StackLayers, layers
from aiflame.attribute.meaning.ops import StackOps, ops
from aiflame.attribute.tree import Kind
from aiflame.profile.schema.enums import FrameKind
from aiflame.profile.schema.frame_words import AUTOGRAD_BACKWARD as BACKWARD
from aiflame.profile.tables.store import Profile

AUTOGRAD, MAIN = 7, 1
"""Rows of `threads`."""
ONE, OTHER = 1, 2
"""torch's numbers of threads."""
NO_NUMBER = 0xFFFFFFFF

MODULES = {"": 1, "layers.0": 2, "layers.0.attn": 3, "layers.1": 4}


class Program:
    """Makes stacks from a layer's path and the names of native functions below it."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.stacks: list[Row] = []
        self.items: list[dict[str, int | bool]] = []
        self.calls: list[Row] = []
        self.sums: list[Row] = []

    def stack(self, layer: str | None, *functions: str) -> int:
        words = []
        for path in () if layer is None else ("", *(".".join(layer.split(".")[:end]) for end in (2, 3))):
            if path in MODULES and MODULES[path] not in words:
                words.append(MODULES[path])
        frames = [FrameKind.LAYER << 60 | word for word in words]
        frames += [native(1, 0x100 * self.names.setdefault(name, 1 + len(self.names))) for name in functions]
        parent = 0
        for frame in frames:
            self.stacks.append({"parent": parent, "frame": frame})
            parent = len(self.stacks)
        return parent

    def forward(self, sequence: int, layer: str | None, op: str = "", number: int = ONE, thread: int = MAIN, **more: Any) -> int:
        return self.item(thread, self.stack(layer, *([f"at::_ops::{op}::call"] if op else ["run"])), number, sequence, **more)

    def backward(self, sequence: int, node: str = "", op: str = "mm", number: int = ONE, thread: int = AUTOGRAD, **more: Any) -> int:
        functions = ["torch::autograd::Engine::evaluate_function", "torch::autograd::Node::operator()"]
        functions += [f"torch::autograd::generated::{node}::apply"] if node else []
        stack = self.stack(None, *functions, f"at::_ops::{op}::call")
        return self.item(thread, stack, BACKWARD | number, sequence, **more)

    def between(self, op: str = "add_Tensor", thread: int = AUTOGRAD, **more: Any) -> int:
        stack = self.stack(None, "torch::autograd::Engine::evaluate_function", f"at::_ops::{op}::call")
        return self.item(thread, stack, OTHER, 0, **more)

    def sum(self, first: int, last: int, gpu: bool = True, row: Row | None = None) -> int:
        """Adds up two nodes' gradients; the engine does it after the last node's work. `row`: columns that differ from the usual ones."""
        stack = self.stack(None, "torch::autograd::Engine::evaluate_function", "at::_ops::add_Tensor::call")
        item = self.item(AUTOGRAD, stack, BACKWARD | ONE, last, gpu=gpu)
        begin = int(self.items[item]["time_ns"])
        summed: Row = {"thread": AUTOGRAD, "autograd": BACKWARD | ONE, "first": first, "last": last, "begin_ns": begin, "end_ns": begin + 1}
        self.sums.append(summed | (row or {}))
        return item

    def recomputed(self, layer: str, op: str, sequence: int, autograd: int) -> int:
        """A module that is called inside of a node."""
        outer = self.stack(None, "torch::autograd::Engine::evaluate_function", "torch::autograd::PyNode::apply")
        self.stacks.append({"parent": outer, "frame": FrameKind.LAYER << 60 | MODULES[layer]})
        inner = len(self.stacks)
        name = f"at::_ops::{op}::call"
        self.stacks.append({"parent": inner, "frame": native(1, 0x100 * self.names.setdefault(name, 1 + len(self.names)))})
        return self.item(AUTOGRAD, len(self.stacks), autograd, sequence)

    def call(self, layer: str, first: int, last: int, begin: int, end: int) -> None:
        spans = {"sequence_begin": first, "sequence_end": last, "begin_ns": begin, "end_ns": end}
        self.calls.append({"thread": MAIN, "layer": MODULES[layer], "autograd": ONE, **spans})

    def found(self, path: Path) -> Found:
        constants = {"process": 0, "depth": 0, "full_name": "", "module": "libtorch_cpu.so", "file": "", "line": 0, "offset": 0}
        symbols = [
            {**constants, "approximate": False, "frame": native(1, 0x100 * number), "name": name, "kind": int(Kind.CPP)}
            for name, number in self.names.items()
        ]
        rows = [{"layer": row, "root": 1, "path": path, "type": "app.Module"} for path, row in MODULES.items()]
        classes = [{"address": row, "type": "Module"} for row in MODULES.values()]
        tables = {"stacks": self.stacks, "symbols": symbols, "layers": classes, "layer_names": rows, "layer_calls": self.calls}
        tables |= {"gradient_sums": self.sums}
        profile = sealed(path / "p.aiflame", None, **tables)
        return Found.of(profile, pl.DataFrame(self.items))

    def item(self, thread: int, stack: int, autograd: int, sequence: int, gpu: bool = True, time: int = 0, process: int = 0) -> int:
        time = time or 10 * (1 + len(self.items))
        row = {"process": process, "thread": thread, "stack": stack, "time_ns": time, "autograd": autograd, "sequence": sequence}
        self.items.append({**row, "gpu": gpu})
        return len(self.items) - 1


@dataclass
class Found:
    origins: ForwardOf
    layers: StackLayers
    ops: StackOps
    items: pl.DataFrame = field(default_factory=pl.DataFrame)

    @staticmethod
    def of(profile: Profile, items: pl.DataFrame) -> Found:
        of_layers, of_ops = layers(profile), ops(profile)
        return Found(origins(profile, items, of_layers, of_ops), of_layers, of_ops, items)

    def layer(self, item: int) -> str:
        node, text = int(self.origins.layer[item]), []
        while node > 0:
            text.append(self.layers.forest.frames["name"][int(self.layers.forest.frame[node])])
            node = int(self.layers.forest.parent[node])
        return "/".join(reversed(text))

    def op(self, item: int) -> str:
        return self.ops.names[self.origins.op[item]]
