"""How much of a tree is idle time, on trees whose shares are known."""

from __future__ import annotations

from trees import PROCESS, c, py, tree

from aiflame.analyze.idle_share import idle_share
from aiflame.attribute.tree import Frame, Kind

IDLE = (PROCESS, Frame("[GPU idle]", Kind.GPU_IDLE))
BUSY = (PROCESS, py("step", "/app/train.py"), c("launch"), Frame("gemm", Kind.GPU_KERNEL))


def test_idle_frames_are_counted_against_the_whole() -> None:
    assert idle_share(tree((BUSY, 30), (IDLE, 90)), "cpu-time") == 0.75


def test_a_tree_without_idle_frames_or_without_values_has_none() -> None:
    assert idle_share(tree((BUSY, 30)), "cpu-time") == 0.0
    assert idle_share(tree((BUSY, 0)), "cpu-time") == 0.0
