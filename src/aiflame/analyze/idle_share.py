"""How much of a tree of GPU time is time in which GPUs had nothing to do."""

from __future__ import annotations

from aiflame.attribute.tree import Tree
from aiflame.profile.schema.kinds import Kind


def idle_share(tree: Tree, metric: str) -> float:
    """The share of the metric's total that lies in idle frames."""
    total = tree.total(metric)
    return int(tree.values[metric][tree.kinds() == Kind.GPU_IDLE].sum()) / total if total else 0.0
