"""How much of what a GPU did is explained: under the program's own code, on a launch, at a source line and an instruction."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from aiflame.attribute import nodes
from aiflame.attribute.gpu_samples import DRIVER
from aiflame.attribute.reshape import matching
from aiflame.attribute.tree import Tree
from aiflame.profile.kinds import Kind

Mask = NDArray[np.bool_]


def under_file(tree: Tree, metric: str, file: str) -> float:
    """The share of what kernels and copies took whose stack has a Python function of a file, whose path ends so. Idle time is left out."""
    python = (tree.frames["kind"] == int(Kind.PYTHON)) & tree.frames["file"].str.ends_with(file)
    return _share(tree, metric, _beneath(tree, python.to_numpy()[tree.frame]), ~_of_kind(tree, Kind.GPU_IDLE))


def attributed(tree: Tree, metric: str) -> float:
    """The share that is under no `[unattributed: …]`. Idle time and what the driver ran on its own account are left out."""
    driver = (tree.frames["name"] == DRIVER).to_numpy()[tree.frame]
    return _share(tree, metric, ~_beneath(tree, _of_kind(tree, Kind.UNATTRIBUTED)), ~_of_kind(tree, Kind.GPU_IDLE) & ~driver)


def resolved(tree: Tree, metric: str, kernels: str, kinds: Collection[Kind] = (Kind.GPU_LINE, Kind.GPU_INSTRUCTION)) -> float:
    """Of what lies in the kernels that a regular expression finds, the share that lies in frames of all these kinds."""
    inside = _beneath(tree, matching(tree, kernels) & _of_kind(tree, Kind.GPU_KERNEL))
    in_all = np.logical_and.reduce([_beneath(tree, _of_kind(tree, kind)) for kind in kinds])
    return _share(tree, metric, in_all, inside)


def idle(tree: Tree, metric: str) -> float:
    """The share in which GPUs had nothing to do."""
    total = tree.total(metric)
    return int(tree.values[metric][_of_kind(tree, Kind.GPU_IDLE)].sum()) / total if total else 0.0


def _of_kind(tree: Tree, kind: Kind) -> Mask:
    mask: Mask = tree.kinds() == kind
    return mask


def _beneath(tree: Tree, mark: Mask) -> Mask:
    """The marked nodes and what lies on them."""
    mask: Mask = nodes.nearest(tree.parent, mark) >= 0
    return mask


def _share(tree: Tree, metric: str, part: Mask, whole: Mask) -> float:
    """1 where there is nothing to explain."""
    value = tree.values[metric]
    total = int(value[whole].sum())
    return int(value[part & whole].sum()) / total if total else 1.0
