"""Python programs whose torch modules launch work, on a stand-in for torch: its calls come through a function of the same name in a file of
the same name."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from live import Process

from aiflame.profile.schema.enums import FrameKind

_MODULE = """
class Module:
    def _call_impl(self, *args):
        return self.forward(*args)

    __call__ = _call_impl
"""
_BEGIN = """
import ctypes, sys
sys.path.insert(0, {folder!r})
from module import Module
import _aiflame

class Work(Module):
    def __init__(self, launches):
        self.launches = launches
    def forward(self):
        for launch in self.launches:
            launch()

class Net(Module):
    def forward(self):
        First(self.first)()
        Second(self.second)()

class First(Work): pass
class Second(Work): pass
"""


def program(folder: Path, text: str) -> Path:
    """A program that has `Net`, whose layers `First` and `Second` call the functions in its lists `first` and `second`."""
    module = folder / "torch/nn/modules/module.py"
    module.parent.mkdir(parents=True)
    module.write_text(_MODULE)
    path = folder / "program.py"
    path.write_text(_BEGIN.format(folder=str(module.parent)) + text)
    return path


def kernels_by_layers(process: Process) -> list[tuple[tuple[str, ...], int]]:
    """The classes of the layers that each kernel was launched in, outermost first, and how long it ran."""
    nodes = {row["id"]: (row["parent"], row["frame"]) for row in process.table("stacks").iter_rows(named=True)}
    types = {row["id"]: str(row["type"]) for row in process.table("layers").iter_rows(named=True)}
    launches = process.table("launches").select("correlation", "stack")
    kernels = process.table("kernels").join(launches, on="correlation").sort("start_ns")
    rows = []
    for node, took in kernels.select("stack", pl.col("end_ns") - pl.col("start_ns")).iter_rows():
        layers = list[str]()
        while node:
            node, word = nodes[node]
            if FrameKind(word >> 60) is FrameKind.LAYER:
                layers.append(types[word & 0xFFFFFFFF])
        rows.append((tuple(reversed(layers)), took))
    return rows
