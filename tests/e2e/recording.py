"""What a recorded run is, and where the time went in its tree."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import aiflame
from aiflame.api import Profile
from aiflame.attribute.tree import Tree

PROGRAMS = Path(__file__).parent / "programs"
PYTHON = sys.executable


@dataclass(frozen=True, slots=True)
class Run:
    """A finished `aiflame record`."""

    status: int
    stdout: str
    stderr: str
    path: Path

    def profile(self) -> Profile:
        return aiflame.open(self.path)


Recorder = Callable[..., Run]


def under(tree: Tree, name: str) -> np.ndarray:
    """Which nodes have a frame of that name at or above them."""
    names = tree.frames["name"].to_list()
    wanted = np.array([frame == name for frame in names])[tree.frame]
    for node in range(1, len(tree)):
        wanted[node] |= wanted[tree.parent[node]]
    return wanted


def time_under(tree: Tree, *names: str, metric: str = "cpu-time") -> int:
    """Self time of the nodes that have every one of these frames at or above them."""
    inside = np.ones(len(tree), dtype=bool)
    for name in names:
        inside &= under(tree, name)
    return int(tree.values[metric][inside].sum())
