"""A recorded GPU program, and where its kernels and samples stand in the trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from recording import Run, under

from aiflame.api import Profile
from aiflame.attribute.tree import Tree
from aiflame.profile.schema.kinds import Kind

PROGRAMS = Path(__file__).parent / "programs"
MILLISECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Result:
    """A program's end as a person sees it."""

    status: int
    stdout: str


@dataclass(slots=True)
class GpuRun:
    run: Run
    _profile: Profile | None = None
    _trees: dict[str, Tree] = field(default_factory=dict)

    @property
    def result(self) -> Result:
        return Result(self.run.status, self.run.stdout)

    @property
    def profile(self) -> Profile:
        if self._profile is None:
            self._profile = self.run.profile()
        return self._profile

    def tree(self, metric: str) -> Tree:
        if metric not in self._trees:
            self._trees[metric] = self.profile.tree(metric)
        return self._trees[metric]

    def total(self, metric: str, kernel: str = "", *functions: str) -> int:
        """The total of kernels with that name (of all kernels without one), under all of these functions."""
        tree = self.tree(metric)
        inside = _under_kernel(tree, kernel)
        for function in functions:
            inside &= under(tree, function)
        return int(tree.values[metric][inside].sum())

    def unattributed(self, metric: str) -> float:
        """The share of values without a place."""
        tree = self.tree(metric)
        lost = _below(tree, tree.kinds() == Kind.UNATTRIBUTED)
        return int(tree.values[metric][lost].sum()) / max(tree.total(metric), 1)

    def stacks(self, metric: str) -> dict[tuple[str, ...], int]:
        """Frame names from the outside in → their own value."""
        tree = self.tree(metric)
        names = tree.frames["name"].to_list()
        stacks: dict[tuple[str, ...], int] = {}
        for node in np.flatnonzero(tree.values[metric]).tolist():
            value, stack = int(tree.values[metric][node]), []
            while node > 0:
                stack.append(names[tree.frame[node]])
                node = int(tree.parent[node])
            stacks[tuple(reversed(stack))] = value
        return stacks

    def kernels(self) -> pl.DataFrame:
        """Kernel records with their names and devices."""
        shapes = self.profile.table("kernel_shapes").select("process", "name", "device", shape="id")
        return self.profile.table("kernels").join(shapes, on=["process", "shape"], how="left")

    def samples(self) -> pl.DataFrame:
        """Samples with `kernel` and `reason` by name, those of `_not_issued` (a part of the others) left out."""
        functions = self.profile.table("gpu_functions").select("process", "cubin", kernel="name", function="id")
        reasons = self.profile.table("stall_reasons").select("process", reason="id", why="name")
        return (
            self.profile.table("gpu_samples")
            .join(functions, on=["process", "function"], how="left")
            .join(reasons, on=["process", "reason"], how="left")
            .filter(~pl.col("why").str.ends_with("_not_issued"))
            .with_columns(reason=pl.col("why").str.replace("^.*warps_issue_stalled_", ""))
        )


Recorder = Callable[..., GpuRun]
Alone = Callable[..., Result]


def _under_kernel(tree: Tree, name: str) -> NDArray[np.bool_]:
    """Which nodes have a GPU kernel of that name at or above them."""
    kernel = (tree.frames["kind"] == int(Kind.GPU_KERNEL)) & (tree.frames["name"].str.starts_with(name) if name else True)
    return _below(tree, kernel.to_numpy()[tree.frame])


def _below(tree: Tree, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which nodes are marked or have a marked one above them."""
    wanted = marked.copy()
    for node in range(1, len(tree)):
        wanted[node] |= wanted[tree.parent[node]]
    return wanted


def appear_in_order(stack: tuple[str, ...], *names: str) -> bool:
    """Whether the names are in the stack, each inside the one before."""
    callees = iter(stack)
    return all(name in callees for name in names)
