"""Windows of a store with known values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from aiflame.profile.folder.door import Folder
from aiflame.profile.schema.kinds import Kind
from aiflame.store.layout import make_store
from aiflame.store.numbers import number_of, stack_number
from aiflame.store.tables import COLUMNS, Tables, empty

HOUR_NS = 3_600_000_000_000
BEGIN_NS = 1_764_252_000_000_000_000
"""2025-11-27T14:00Z"""


def new_store(path: Path) -> Folder:
    return make_store(path / "store")


def window(
    number: int,
    stacks: Mapping[tuple[str, ...], int],
    *,
    pid: int = 7,
    begin_ns: int = BEGIN_NS,
    took_ns: int = 10_000_000_000,
    found_ns: int = 0,
    command: str = "python train.py",
    rank: int = -1,
    version: str = "",
    layer: str = "",
    metric: str = "cpu-time",
    unit: str = "ns",
    notes: str = "",
) -> Tables:
    """`stacks`: functions of a Python file, the outermost first → nanoseconds. `found_ns`: when the process was found;
    0: at the window's begin."""
    values: list[tuple[object, ...]] = []
    nodes, frames = {}, {}
    for stack, value in stacks.items():
        parent = 0
        for depth, name in enumerate(stack, 1):
            row = (name, int(Kind.PYTHON), "", "train.py", 1, 2)
            frame = number_of(*row)
            frames[frame] = (frame, *row)
            node = stack_number(parent, frame)
            nodes[node] = (node, parent, depth, frame)
            parent = node
        values.append((number, "main thread", "", layer, "", metric, unit, parent, value))
    process = number_of(pid)
    rows: dict[str, list[tuple[object, ...]]] = {
        "windows": [(number, process, begin_ns, took_ns, pid, command, "me", "/user.slice/a", rank, version, notes)],
        "values": values,
        "stacks": [*nodes.values()],
        "frames": [*frames.values()],
        "processes": [(process, pid, begin_ns, found_ns or begin_ns, begin_ns + took_ns, command, "", rank, 0, 1, "")],
    }
    return empty() | {name: pl.DataFrame(given, schema=dict(COLUMNS[name]), orient="row") for name, given in rows.items()}
