"""Where frames lie: stated for all trees, checked on random ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from aiflame.attribute.tree import CPU_TIME, GPU_TIME, Frame, Kind, Tree, frame_table, from_stacks
from aiflame.render.flame_svg.layout import Layout, lay_out

FRAMES = [Frame(name, Kind.C) for name in ("e", "d", "c", "b", "a")] + [Frame("[unattributed: x]", Kind.UNATTRIBUTED)]
METRICS = (CPU_TIME, GPU_TIME)


@some.composite
def trees(draw: some.DrawFn) -> Tree:
    """Up to 60 nodes of two metrics, siblings distinct."""
    parent, frame = [-1], [0]
    seen: set[tuple[int, int]] = set()
    for _ in range(draw(some.integers(0, 60))):
        key = (draw(some.integers(0, len(parent) - 1)), draw(some.integers(1, len(FRAMES))))
        if key not in seen:
            seen.add(key)
            parent.append(key[0])
            frame.append(key[1])
    amounts = some.lists(some.integers(0, 1_000_000), min_size=len(parent), max_size=len(parent))
    values = {metric.name: np.asarray(draw(amounts), dtype=np.int64) for metric in METRICS}
    return Tree(frame_table(FRAMES), np.asarray(parent, np.int32), np.asarray(frame, np.uint32), values, METRICS)


def names(layout: Layout, tree: Tree) -> list[str]:
    return tree.frames["name"].gather(layout.frame).to_list()


@given(trees())
def test_totals_are_the_trees_and_come_depth_first(tree: Tree) -> None:
    layout = lay_out(tree, ("cpu-time", "gpu-time"))
    assert layout.total[0, 0] == tree.total("cpu-time")
    assert layout.total[1, 0] == tree.total("gpu-time")
    assert layout.own.sum(axis=1).tolist() == [tree.total("cpu-time"), tree.total("gpu-time")]
    assert not layout.folded.any()
    assert (layout.parent[1:] < np.arange(1, len(layout))).all()
    for node in range(1, len(layout)):
        assert layout.depth[node] == layout.depth[layout.parent[node]] + 1
        # In depth-first order, the caller is the last node before it that is one row lower.
        assert layout.parent[node] == max(at for at in range(node) if layout.depth[at] == layout.depth[node] - 1)


@given(trees())
def test_frames_lie_in_their_callers_side_by_side(tree: Tree) -> None:
    layout = lay_out(tree, ("cpu-time",))
    for node in range(len(layout)):
        edge = layout.start[node]
        for child in np.flatnonzero(layout.parent == node).tolist():
            assert layout.start[child] == edge
            edge += layout.total[0, child]
        assert edge + layout.own[0, node] == layout.start[node] + layout.total[0, node]


@given(trees())
def test_siblings_go_by_name_and_the_unattributed_come_last(tree: Tree) -> None:
    layout = lay_out(tree, ("cpu-time",))
    label = names(layout, tree)
    for node in range(len(layout)):
        siblings = [label[child] for child in np.flatnonzero(layout.parent == node).tolist()]
        assert siblings == sorted(siblings, key=lambda name: (name.startswith("["), name))


def test_numbers_in_names_count_as_numbers_and_idle_time_comes_last() -> None:
    order = ["layers.2", "layers.10", "layers.10.mlp", "layers.010a", "layers.123456789012345678", "x"]
    last = [Frame("[GPU idle]", Kind.GPU_IDLE), Frame("[unattributed: x]", Kind.UNATTRIBUTED)]
    frames = [*last, *(Frame(name, Kind.LAYER) for name in reversed(order))]
    layout = lay_out(tree := from_stacks([([frame], 1) for frame in frames], CPU_TIME), ("cpu-time",))
    assert names(layout, tree)[1:] == [*order, *(frame.name for frame in last)]


@given(trees(), some.floats(0, 1), some.integers(1, 20))
def test_folded_rows_stay_in_the_totals(tree: Tree, min_share: float, max_nodes: int) -> None:
    whole = lay_out(tree, ("cpu-time",))
    layout = lay_out(tree, ("cpu-time",), max_nodes, min_share)
    assert len(layout) <= max(max_nodes, 1)
    assert layout.total[0, 0] == whole.total[0, 0]
    assert layout.own.sum() + layout.folded.sum() == tree.total("cpu-time")
    assert layout.folded_nodes == np.count_nonzero(whole.total[0]) - np.count_nonzero(layout.total[0])
    assert (layout.total[0, 1:] >= min_share * layout.total[0, 0]).all()


def test_a_frame_that_only_another_metric_has_is_kept() -> None:
    tree = from_stacks([([FRAMES[0]], 0), ([FRAMES[1]], 5)], CPU_TIME)
    both = tree.with_values({"cpu-time": tree.values["cpu-time"], "gpu-time": 9 * (tree.values["cpu-time"] == 0)}, METRICS)
    assert len(lay_out(both, ("cpu-time", "gpu-time"))) == 3
    assert len(lay_out(both, ("cpu-time",))) == 2


def test_an_empty_tree_is_its_root() -> None:
    layout = lay_out(from_stacks([], CPU_TIME), ("cpu-time",))
    assert len(layout) == 1
    assert layout.parent.tolist() == [-1]


def test_ten_thousand_frames_deep() -> None:
    layout = lay_out(from_stacks([([FRAMES[0]] * 10_000, 3)], CPU_TIME), ("cpu-time",))
    assert layout.depth.tolist() == list(range(10_001))
    assert set(layout.start.tolist()) == {0}
