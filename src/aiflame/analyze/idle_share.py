"""The share of idle time in a tree of GPU time."""

from __future__ import annotations

from aiflame.attribute.tree import Tree
from aiflame.profile.schema.kinds import Kind


def idle_share(tree: Tree, metric: str) -> float:
    """The share of the metric's total in idle frames."""
    total = tree.total(metric)
    return int(tree.values[metric][tree.kinds() == Kind.GPU_IDLE].sum()) / total if total else 0.0
