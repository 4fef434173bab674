"""hatchet's literal tree (https://github.com/LLNL/hatchet): `GraphFrame.from_literal(json.load(file))`.

Each node has all metrics: `gpu-time` is its own value, `gpu-time (inc)` the one with all below it. The chosen metric is also there as
`time`, hatchet's own default.
"""

from __future__ import annotations

from typing import TextIO

import numpy as np

from aiflame.attribute.arrays import nodes
from aiflame.attribute.tree import Tree
from aiflame.json_text import json_text
from aiflame.profile.schema.kinds import Kind

CHOSEN, BELOW = "time", " (inc)"
_WRITE_NODES = 5_000


def write(tree: Tree, metric: str, file: TextIO) -> None:
    """The tree from its root, as it is walked: no recursion here, and none in a reader but hatchet's own."""
    columns = {**{one.name: tree.values[one.name] for one in tree.metrics}, CHOSEN: tree.values[metric]}
    columns |= {f"{name}{BELOW}": nodes.sum_up(tree.parent, values) for name, values in columns.items()}
    rank = tree.frames["name"].rank("ordinal").to_numpy().astype(np.int64)[tree.frame]
    place, _ = nodes.preorder(tree.parent, rank)
    walk = np.argsort(place)
    frames = [json_text(_frame(row)) for row in tree.frames.iter_rows(named=True)]
    keys = [json_text(name) for name in columns]
    values = np.stack([each[walk] for each in columns.values()], axis=1).tolist()
    open_nodes = 0
    parts = ["["]
    for depth, frame, own in zip(tree.depths()[walk].tolist(), tree.frame[walk].tolist(), values, strict=True):
        parts.append("]}" * (open_nodes - depth) + ("," if open_nodes > depth else ""))
        metrics = ",".join(f"{key}:{value}" for key, value in zip(keys, own, strict=True))
        parts.append(f'{{"frame":{frames[frame]},"metrics":{{{metrics}}},"children":[')
        open_nodes = depth + 1
        if len(parts) > _WRITE_NODES:
            file.write("".join(parts))
            parts.clear()
    file.write("".join(parts) + "]}" * open_nodes + "]\n")


def _frame(row: dict[str, object]) -> dict[str, object]:
    """The attributes of a node in hatchet, which filters by them: each is a text."""
    kind = Kind(int(row["kind"]))  # type: ignore[call-overload]
    frame = {"name": row["name"] or "[unknown]", "type": kind.name.lower()}
    for key in ("file", "line", "module"):
        if row[key]:
            frame[key] = str(row[key])
    return frame
