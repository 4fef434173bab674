"""speedscope's file format (https://www.speedscope.app/file-format-schema.json): one sampled profile, written piece by piece."""

from __future__ import annotations

from functools import partial
from typing import TextIO

import numpy as np

from aiflame.attribute.arrays import nodes
from aiflame.attribute.tree import Tree
from aiflame.json_text import json_text
from aiflame.version import VERSION

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
UNITS = {"ns": "nanoseconds", "bytes": "bytes"}
_WRITE_STACKS = 2_000


def write(tree: Tree, metric: str, file: TextIO) -> None:
    """Each stack with a value is one sample, with the value as its weight; siblings come in the order of their names."""
    kind = tree.metric(metric)
    dump = partial(json_text, separators=(",", ":"))
    file.write(f'{{"$schema":{dump(SCHEMA)},"exporter":{dump(f"aiflame {VERSION}")},"name":{dump(kind.label)},"activeProfileIndex":0,')
    file.write('"shared":{"frames":[')
    rows = tree.frames.select("name", "file", "line").rows()
    for row, (name, source, line) in enumerate(rows[1:]):
        frame = {"name": name or "[unknown]"} | ({"file": source} if source else {}) | ({"line": line} if line else {})
        file.write(("," if row else "") + dump(frame))
    unit = UNITS.get(kind.unit, "none")
    file.write(f']}},"profiles":[{{"type":"sampled","name":{dump(kind.label)},"unit":"{unit}","startValue":0,')
    file.write(f'"endValue":{tree.total(metric)},"samples":[')
    weights = _write_samples(tree, metric, file)
    file.write('],"weights":[')
    for begin in range(0, len(weights), 100_000):
        file.write(("," if begin else "") + ",".join(map(str, weights[begin : begin + 100_000])))
    file.write("]}]}\n")


def _write_samples(tree: Tree, metric: str, file: TextIO) -> list[int]:
    """Writes the stacks as lists of frames, outermost first, and returns the weights."""
    rank = tree.frames["name"].rank("ordinal").to_numpy().astype(np.int64)[tree.frame]
    place, _ = nodes.preorder(tree.parent, rank)
    walk = np.argsort(place)
    depths = tree.depths()[walk].tolist()
    numbers = [str(row - 1) for row in range(len(tree.frames))]  # speedscope has no frame for the root
    stack = [""] * (max(depths) + 1)
    weights: list[int] = []
    waiting: list[str] = []
    for depth, frame, value in zip(depths, tree.frame[walk].tolist(), tree.values[metric][walk].tolist(), strict=True):
        stack[depth] = numbers[frame]
        if not value:
            continue
        waiting.append(("," if weights else "") + f"[{','.join(stack[1 : depth + 1])}]")
        weights.append(value)
        if len(waiting) == _WRITE_STACKS:
            file.write("".join(waiting))
            waiting.clear()
    file.write("".join(waiting))
    return weights
