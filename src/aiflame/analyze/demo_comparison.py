"""Compares functions that do the same work, for the sentence at the end of `aiflame demo`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aiflame.attribute.tree import Kind, Tree
from aiflame.values import dataclass

_LINES = {Kind.CPU_LINE, Kind.GPU_LINE}


@dataclass(frozen=True, slots=True)
class Way:
    name: str
    value: int
    """Value of the function and its callees."""
    line: str
    """The line with the largest part, "" if there is none."""


def ways(tree: Tree, metric: str, functions: Sequence[str]) -> list[Way]:
    """The value of each function, the largest first; functions without samples are left out."""
    inside = _inside(tree, functions)
    total = tree.totals(metric)
    compared = []
    for number, name in enumerate(functions):
        nodes = [node for node, way in enumerate(inside) if way == number]
        outermost = [node for node in nodes if inside[tree.parent[node]] != number]
        if value := sum(int(total[node]) for node in outermost):
            compared.append(Way(name, value, _hottest_line(tree, total, nodes)))
    return sorted(compared, key=lambda way: -way.value)


def sentence(tree: Tree, metric: str, compared: Sequence[Way]) -> str:
    """The comparison as a sentence; "" if there is nothing to compare."""
    if len(compared) < 2:
        return ""
    # The part of a label after a comma is for flame graphs.
    whole, label = tree.total(metric), tree.metric(metric).label.partition(",")[0]
    parts = [f"{way.name} {100 * way.value / whole:.1f}%{f' (most at {way.line})' if way.line else ''}" for way in compared]
    parts[0] = parts[0].replace("%", f"% of the {label}", 1)
    slowest, fastest = compared[0], compared[-1]
    speed = f"{fastest.name} is {_times(slowest.value / fastest.value)} as fast as {slowest.name}"
    return f"Same work, {len(compared)} ways: {', '.join(parts)}; {speed}."


def _inside(tree: Tree, functions: Sequence[str]) -> list[int]:
    """For each node, the function that it is in, by its place in `functions`; -1 for none."""
    number = {name: index for index, name in enumerate(functions)}
    of_frame = [number.get(name, -1) for name in tree.frames["name"]]
    inside: list[int] = []
    for parent, frame in zip(tree.parent.tolist(), tree.frame.tolist(), strict=True):
        inside.append(of_frame[frame] if of_frame[frame] >= 0 else inside[parent] if parent >= 0 else -1)
    return inside


def _hottest_line(tree: Tree, total: NDArray[np.int64], nodes: Sequence[int]) -> str:
    names, kinds = tree.frames["name"], tree.frames["kind"]
    lines: Counter[str] = Counter()
    for node in nodes:
        frame = int(tree.frame[node])
        if kinds[frame] in _LINES:
            lines[names[frame]] += int(total[node])
    return max(lines, key=lines.__getitem__, default="")


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio < 10 else f"{ratio:.0f} times"
