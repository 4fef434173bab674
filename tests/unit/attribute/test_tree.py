"""The tree itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from trees import PROCESS, STACKS, THREAD, TREES, c, is_sound, paths, py, tree

from aiflame.attribute.arrays import nodes
from aiflame.attribute.tree import CPU_TIME, Frame, Tree, assemble, frame_table, from_stacks

Stack = tuple[tuple[Frame, ...], int]


def test_equal_stacks_are_one_path_with_the_sum_of_their_values() -> None:
    of = tree(((PROCESS, py("a")), 2), ((PROCESS, py("a")), 3), ((PROCESS,), 1))
    assert paths(of) == {("train.py (7)", "a"): 5, ("train.py (7)",): 1}
    assert len(of) == 3


def test_a_total_is_the_value_of_a_node_and_all_below() -> None:
    of = tree(((PROCESS, THREAD, py("a")), 2), ((PROCESS, THREAD, py("b")), 3), ((PROCESS,), 1))
    assert dict(zip(of.frames["name"][of.frame.tolist()], of.totals("cpu-time").tolist(), strict=True)) == {
        "all": 6,
        "train.py (7)": 6,
        "main thread": 5,
        "a": 2,
        "b": 3,
    }


def test_functions_of_one_name_in_two_libraries_stay_apart() -> None:
    assert len(tree(((c("f", "liba.so"),), 1), ((c("f", "libb.so"),), 1))) == 3


def test_loose_nodes_are_merged_with_frames_that_are_written_twice() -> None:
    frames = frame_table([py("a"), py("b"), py("a")])
    parent, frame = np.array([-1, 0, 0, 1, 2], np.int32), np.array([0, 1, 3, 2, 2], np.uint32)
    of = assemble(frames, parent, frame, {"cpu-time": np.array([0, 1, 2, 4, 8])}, (CPU_TIME,))
    assert is_sound(of)
    assert paths(of) == {("a",): 3, ("a", "b"): 12}


@given(
    st.lists(st.tuples(STACKS, st.integers(1, 9)), max_size=8).flatmap(lambda stacks: st.tuples(st.just(stacks), st.permutations(stacks)))
)
def test_a_tree_is_the_same_in_whatever_order_its_stacks_came(stacks: tuple[list[Stack], list[Stack]]) -> None:
    one, other = (from_stacks(order, CPU_TIME) for order in stacks)
    assert one.frames.equals(other.frames)
    for mine, theirs in zip(columns(one), columns(other), strict=True):
        assert mine.tolist() == theirs.tolist()


def columns(of: Tree) -> tuple[np.ndarray, ...]:
    return of.parent, of.frame, of.values["cpu-time"]


@given(TREES)
def test_every_tree_is_sound(of: Tree) -> None:
    assert is_sound(of)


@given(TREES)
def test_depths_and_totals_agree_with_a_walk_over_the_nodes(of: Tree) -> None:
    depth, total = [0] * len(of), of.values["cpu-time"].tolist()
    for node in range(1, len(of)):
        depth[node] = depth[of.parent[node]] + 1
    for node in range(len(of) - 1, 0, -1):
        total[of.parent[node]] += total[node]
    assert of.depths().tolist() == depth
    assert of.totals("cpu-time").tolist() == total
    assert total[0] == of.total("cpu-time")


@given(TREES)
def test_a_walk_in_depth_visits_a_node_then_its_subtree(of: Tree) -> None:
    place, size = nodes.preorder(of.parent)
    assert sorted(place.tolist()) == list(range(len(of)))
    for node in range(1, len(of)):
        above = of.parent[node]
        assert place[above] < place[node]
        assert place[node] + size[node] <= place[above] + size[above]


def test_a_chain_of_a_million_nodes_needs_no_recursion() -> None:
    parent = np.arange(-1, 999_999, dtype=np.int32)
    assert nodes.depths(parent)[-1] == 999_999
    assert nodes.nearest(parent, parent == 0)[-1] == 1


def test_a_stack_of_five_thousand_frames_has_exact_totals() -> None:
    of = tree((tuple(py(f"f{at % 7}") for at in range(5000)), 10**15), ((py("f0"),), 1))
    assert of.totals("cpu-time").tolist()[:3] == [10**15 + 1, 10**15 + 1, 10**15]
