"""Profiles of a program that launches kernels from layers and ops, and their timelines.

A launch's place is a list: `["layers.0", "mm"]` is a call of that module, which calls that op.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from profiles import Row, native, python, sealed

from aiflame.attribute.timeline.tables import SliceKind, Timeline, TrackKind
from aiflame.attribute.timeline.whole import timeline
from aiflame.profile.schema.enums import FrameKind, GpuApi
from aiflame.profile.schema.kinds import Kind
from aiflame.profile.tables.store import Profile

LAYERS = ("", "layers.0", "layers.0.attn", "layers.1")
OPS = ("mm", "add", "relu")
_MODULE_FILE = "/opt/torch/nn/modules/module.py"
_REST = {"process": 0, "depth": 0, "full_name": "", "module": "", "file": "", "line": 0, "offset": 0, "approximate": False}


@dataclass
class Program:
    """Rows of a profile in the making."""

    def __post_init__(self) -> None:
        self.stacks: list[Row] = []
        self.launches: list[Row] = []
        self.kernels: list[Row] = []
        self.shapes: list[Row] = []
        self.more: dict[str, list[Row]] = {}

    def stack(self, *place: str) -> int:
        """The stack of an op in a layer, both may be left out."""
        words = [python(1, 0)]
        for one in place:
            if one in LAYERS:
                words += [python(2, 0), FrameKind.LAYER << 60 | LAYERS.index(one) + 1, python(3, 0)]
            else:
                words.append(native(1, 0x100 + OPS.index(one)))
        words.append(native(1, 0x200))
        parent = 0
        for word in words:
            self.stacks.append({"parent": parent, "frame": word})
            parent = len(self.stacks)
        return parent

    def launch(self, begin: int, end: int, *place: str, thread: int = 1, **columns: Any) -> int:
        """A launch without a kernel; its correlation."""
        number = len(self.launches) + 1
        shared = {"thread": thread, "stack": self.stack(*place), "api": GpuApi.CUDA, "correlation": number, **columns}
        self.launches.append({"begin_ns": begin, "end_ns": end, **shared})
        return number

    def kernel(
        self, correlation: int, start: int, end: int, name: str = "gemm", *, stream: int = 7, device: str = "GPU [0]", **more: Any
    ) -> None:
        shape = {
            "name": name,
            "device": device,
            "grid_x": 4,
            "grid_y": 2,
            "grid_z": 1,
            "block_x": 128,
            "block_y": 1,
            "block_z": 1,
            "registers": 40,
        }
        if shape not in self.shapes:
            self.shapes.append(shape)
        row = {"shape": self.shapes.index(shape) + 1, "correlation": correlation, "stream": stream, "api": GpuApi.CUDA, **more}
        self.kernels.append({**row, "start_ns": start, "end_ns": end})

    def rows(self, table: str, *rows: Row) -> None:
        self.more.setdefault(table, []).extend(rows)

    def profile(self, path: Path) -> Profile:
        tables = {
            "processes": [{"pid": 1000, "command": "python3\0train.py", "start_ns": 1}],
            "threads": [{"tid": 1000, "name": "python3"}, {"tid": 1001, "name": "worker"}],
            "codes": [
                {"first_line": 1, "filename": "/me/train.py", "qualname": "train"},
                {"first_line": 1, "filename": _MODULE_FILE, "qualname": "Module._call_impl"},
                {"first_line": 1, "filename": "/me/model.py", "qualname": "Block.forward"},
            ],
            "symbols": [
                {**_REST, "frame": python(1, 0), "name": "train", "kind": Kind.PYTHON, "file": "/me/train.py", "line": 12},
                {**_REST, "frame": python(2, 0), "name": "Module._call_impl", "kind": Kind.PYTHON, "file": _MODULE_FILE, "line": 5},
                {**_REST, "frame": python(3, 0), "name": "Block.forward", "kind": Kind.PYTHON, "file": "/me/model.py", "line": 41},
                *(
                    {**_REST, "frame": native(1, 0x100 + at), "name": f"at::_ops::{op}::call", "kind": Kind.CPP}
                    for at, op in enumerate(OPS)
                ),
                {**_REST, "frame": native(1, 0x200), "name": "cudaLaunchKernel", "kind": Kind.C, "module": "libcudart.so.13"},
            ],
            "layers": [{"type": "Block", "address": 64 * at} for at in range(len(LAYERS))],
            "layer_names": [{"layer": at + 1, "root": 1, "path": path, "type": "me.Block"} for at, path in enumerate(LAYERS)],
            "stacks": self.stacks,
            "launches": self.launches,
            "kernel_shapes": self.shapes,
            "kernels": self.kernels,
        }
        return sealed(path / "p.aiflame", **{name: rows for name, rows in (tables | self.more).items() if rows})

    def shown(self, path: Path) -> Shown:
        return Shown(timeline(self.profile(path)))


@dataclass(frozen=True, slots=True)
class Shown:
    timeline: Timeline

    def tracks(self, kind: TrackKind | None = None) -> list[str]:
        """`process/thread/track` of each."""
        paths: list[str] = []
        kinds = []
        for row in self.timeline.tracks.iter_rows(named=True):
            paths.append(f"{paths[row['parent']]}/{row['name']}" if row["parent"] >= 0 else row["name"])
            kinds.append(row["kind"])
        return [name for name, each in zip(paths, kinds, strict=True) if kind is None or each == kind]

    def slices(self, *kinds: SliceKind, track: TrackKind | None = None) -> list[tuple[str, int, int, int]]:
        """Name, begin, end and depth, in the order of time."""
        rows = self.table
        rows = rows.filter(pl.col("kind").is_in([int(kind) for kind in kinds])) if kinds else rows
        rows = rows if track is None else rows.filter(pl.col("track_kind") == int(track))
        return rows.sort("begin_ns", "depth", maintain_order=True).select("name", "begin_ns", "end_ns", "depth").rows()

    @property
    def table(self) -> pl.DataFrame:
        """The slices with their names, and their tracks' kinds and names."""
        drawn = self.timeline
        tracks = drawn.tracks.select("track", track_kind="kind", track_name="name")
        return drawn.slices.with_columns(name=drawn.names.gather(drawn.slices["name"])).join(
            tracks, on="track", how="left", maintain_order="left"
        )

    def facts(self, name: str) -> dict[str, Any]:
        """The facts of the only slices with that name: key → text, number, or the list of texts."""
        sets = self.table.filter(pl.col("name") == name)["facts"].unique().to_list()
        assert len(sets) == 1
        facts: dict[str, Any] = {}
        for key, text, number in self.timeline.facts.filter(pl.col("set") == sets[0]).select("key", "text", "number").rows():
            value = text if text is not None else number
            facts[key] = [*facts[key], value] if isinstance(facts.get(key), list) else [facts[key], value] if key in facts else value
        return facts


def check_nesting(drawn: Timeline) -> None:
    """On every track slices lie beside or inside each other, as deep as they say."""
    for rows in drawn.slices.partition_by("track", maintain_order=True):
        around: list[int] = []
        last = -1
        for begin, end, depth in rows.select("begin_ns", "end_ns", "depth").rows():
            assert begin >= last, "in the order of time"
            last = begin
            while around and around[-1] <= begin:
                around.pop()
            assert end >= begin
            assert not around or end <= around[-1], "inside the slice around it"
            assert depth == len(around) or begin == end  # a slice without a duration may be the last in one that ends then
            around.append(end)
