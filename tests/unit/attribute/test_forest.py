"""Paths put on top of paths."""

from __future__ import annotations

import numpy as np
import polars as pl

from aiflame.attribute.forest import Forest
from aiflame.attribute.tree import Frame, frame_table
from aiflame.profile.schema.kinds import Kind


def forest(*chains: str) -> tuple[Forest, list[int]]:
    """A forest of paths such as `a/b`, and the node of each."""
    paths = sorted({path[: path.rindex("/")] if at else path for path in chains for at in (0, 1) if "/" in path or not at}, key=len)
    numbers = {path: number for number, path in enumerate(paths)}
    parent = np.array([numbers.get(path.rpartition("/")[0], -1) for path in paths], dtype=np.int64)
    frames = pl.concat([frame_table([Frame(path.rpartition("/")[2], Kind.REGION)])[1:] for path in paths])
    grown, place = Forest.of_chains(parent, frames)
    return grown, [int(place[numbers[chain]]) for chain in chains]


def path(of: Forest, node: int) -> str:
    names = of.frames["name"].to_list()
    labels: list[str] = []
    while node > 0:
        labels.append(names[of.frame[node]])
        node = int(of.parent[node])
    return "/".join(reversed(labels))


def test_inner_paths_stand_on_outer_ones_without_the_shared_part() -> None:
    planted, (step, backward, layer, frame) = forest("step", "step/backward", "layer", "step/frame")
    outer = np.array([backward, backward, 0, layer, backward, step, backward])
    inner = np.array([layer, 0, layer, layer, frame, backward, layer])
    grown, node = planted.within(outer, inner)
    assert [path(grown, each) for each in node.tolist()] == [
        "step/backward/layer",
        "step/backward",
        "layer",
        "layer",
        "step/backward/frame",
        "step/backward",
        "step/backward/layer",
    ]
    assert (grown.parent[1:] < np.arange(1, len(grown.parent))).all()


def test_nothing_on_nothing_is_nothing() -> None:
    planted, _ = forest("a")
    _, node = planted.within(np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64))
    assert node.tolist() == [0, 0]
