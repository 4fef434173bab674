"""From work of the backward pass to the forward code that made its node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from backward_program import MAIN, MODULES, NO_NUMBER, ONE, OTHER, Program
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import Row

from aiflame.attribute.meaning.backward import origins
from aiflame.profile.opening import open_profile
from aiflame.profile.schema.frame_words import AUTOGRAD_BACKWARD as BACKWARD


def test_work_of_a_node_belongs_to_the_layer_whose_forward_made_it(tmp_path: Path) -> None:
    program = Program()
    forward = [program.forward(5, "layers.0.attn", "addmm"), program.forward(6, "layers.1", "gelu")]
    back = [program.backward(6, "GeluBackward0", "gelu_backward"), program.backward(5, "AddmmBackward0", "mm")]
    attributed = program.found(tmp_path)
    assert [attributed.layer(item) for item in back] == ["layers.1", "layers.0/attn"]
    assert [attributed.op(item) for item in back] == ["aten::gelu", "aten::addmm"]
    assert attributed.origins.stack[back].tolist() == [program.items[item]["stack"] for item in reversed(forward)]
    assert attributed.origins.backward.tolist() == [False, False, True, True]


def test_forward_work_belongs_to_its_own_stack(tmp_path: Path) -> None:
    program = Program()
    item = program.forward(5, "layers.0", "addmm")
    attributed = program.found(tmp_path)
    assert (attributed.layer(item), attributed.op(item), attributed.origins.stack[item]) == (
        "layers.0",
        "aten::addmm",
        program.items[item]["stack"],
    )


def test_of_several_things_launched_after_a_node_was_made_the_one_of_its_op_made_it(tmp_path: Path) -> None:
    """A view makes node 5 and launches nothing; the next op makes none, being run without gradients."""
    program = Program()
    program.forward(5, "layers.0", "fill__Scalar")
    program.forward(5, "layers.1", "addmm")
    back = [program.backward(5, "AddmmBackward0"), program.backward(5, "ExpBackward0"), program.backward(5)]
    attributed = program.found(tmp_path)
    assert [attributed.layer(item) for item in back] == ["layers.1", "layers.0", "layers.0"]


def test_the_nodes_of_this_step_are_those_of_before_the_backward_pass(tmp_path: Path) -> None:
    program = Program()
    program.forward(5, "layers.0", "addmm", time=10)
    first = program.backward(5, "AddmmBackward0", time=20)
    program.forward(5, "layers.1", "addmm", time=30, thread=9)  # another thread with torch's old number, from 5 again
    second = program.backward(5, "AddmmBackward0", time=40)
    attributed = program.found(tmp_path)
    assert [attributed.layer(first), attributed.layer(second)] == ["layers.0", "layers.1"]


def test_threads_and_processes_have_numbers_of_their_own(tmp_path: Path) -> None:
    program = Program()
    program.forward(5, "layers.0", "addmm")
    others = [program.backward(5, "AddmmBackward0", number=OTHER), program.backward(5, "AddmmBackward0", process=1)]
    attributed = program.found(tmp_path)
    assert [attributed.layer(item) for item in others] == ["", ""]


def test_a_node_that_launched_nothing_lies_between_its_neighbours(tmp_path: Path) -> None:
    program = Program()
    for sequence, layer in ((4, "layers.0"), (6, "layers.0"), (8, "layers.0.attn"), (20, "layers.1")):
        program.forward(sequence, layer, "addmm")
    back = [program.backward(sequence, "ViewBackward0") for sequence in (5, 7, 12)]
    attributed = program.found(tmp_path)
    assert [attributed.layer(item) for item in back] == ["layers.0", "layers.0", ""]
    assert [attributed.op(item) for item in back] == ["aten::view"] * 3


def test_neighbours_belong_to_the_same_step(tmp_path: Path) -> None:
    program = Program()
    program.forward(4, "layers.0", "addmm")
    back = program.backward(5, "ViewBackward0")
    program.forward(6, "layers.1", "addmm")
    assert program.found(tmp_path).layer(back) == "layers.0"


def test_far_neighbours_do_not_count(tmp_path: Path) -> None:
    program = Program()
    program.forward(4, "layers.0", "addmm")
    program.forward(100_000, "layers.0", "addmm")
    back = program.backward(50_000, "ViewBackward0")
    assert program.found(tmp_path).layer(back) == ""


def test_numbers_begin_again_after_32_bits(tmp_path: Path) -> None:
    program = Program()
    program.forward((1 << 32) - 4, "layers.0", "addmm")
    program.forward(1, "layers.1", "addmm")
    back = [program.backward(1, "AddmmBackward0"), program.backward((1 << 32) - 4, "AddmmBackward0"), program.backward((1 << 32) - 3)]
    attributed = program.found(tmp_path)
    assert [attributed.layer(item) for item in back] == ["layers.1", "layers.0", "layers.0"]


def test_sums_of_gradients_belong_to_the_node_before(tmp_path: Path) -> None:
    program = Program()
    program.forward(5, "layers.0", "addmm")
    program.forward(6, "layers.1", "addmm")
    program.backward(6, "AddmmBackward0")
    added = [program.between(), program.backward(NO_NUMBER, "", "add", number=OTHER)]
    program.backward(5, "AddmmBackward0")
    attributed = program.found(tmp_path)
    assert [(attributed.layer(item), attributed.origins.backward[item]) for item in added] == [("layers.1", True)] * 2
    assert attributed.op(added[0]) == "aten::add"


def test_a_sum_of_gradients_belongs_to_the_layer_around_all_its_nodes(tmp_path: Path) -> None:
    """The tensor was used in a layer and a module inside it; inside one layer alone; and in two layers."""
    program = Program()
    for sequence, layer in ((4, "layers.0.attn"), (5, "layers.0.attn"), (6, "layers.0"), (7, "layers.1")):
        program.forward(sequence, layer, "addmm")
    sums = [program.sum(first, last) for first, last in ((6, 4), (5, 4), (7, 4), (6, 6))]
    back = program.backward(4, "AddmmBackward0")
    attributed = program.found(tmp_path)
    assert [attributed.layer(item) for item in sums] == ["layers.0", "layers.0/attn", "", "layers.0"]
    assert attributed.layer(back) == "layers.0/attn"
    assert {attributed.op(item) for item in sums} == {"aten::add"}
    assert attributed.origins.backward[sums].all()


def test_nodes_of_a_sum_that_launched_nothing_belong_to_the_call_that_made_them(tmp_path: Path) -> None:
    program = Program()
    program.call("layers.0.attn", 4, 6, 1, 2)
    program.call("layers.0", 6, 8, 3, 4)
    sums = [program.sum(6, 4, gpu=gpu) for gpu in (False, True)]
    attributed = program.found(tmp_path)
    assert [attributed.layer(item) for item in sums] == ["layers.0"] * 2


def test_a_sum_without_a_record_belongs_to_its_node(tmp_path: Path) -> None:
    """Older profiles have no such rows; rows of another thread, moment or node do not count."""
    program = Program()
    program.forward(4, "layers.0.attn", "addmm")
    program.forward(6, "layers.0", "addmm")
    others: list[Row] = [{"thread": MAIN}, {"end_ns": 1}, {"begin_ns": 10_000}, {"last": 5}, {"autograd": ONE}]
    sums = [program.sum(6, 4, row=row) for row in others]
    program.sums.append({**program.sums[0], "begin_ns": 0, "end_ns": 0})
    attributed = program.found(tmp_path)
    assert [attributed.layer(item) for item in sums] == ["layers.0/attn"] * len(sums)


def test_cpu_samples_between_nodes_belong_to_the_layer_that_their_neighbours_share(tmp_path: Path) -> None:
    program = Program()
    for sequence, layer in ((5, "layers.0"), (6, "layers.0.attn"), (7, "layers.1")):
        program.forward(sequence, layer, "addmm")
    program.backward(7, "AddmmBackward0", gpu=False)
    first = program.between(gpu=False)
    program.backward(6, "AddmmBackward0", gpu=False)
    second = program.between(gpu=False)
    program.backward(5, "AddmmBackward0", gpu=False)
    last = program.between(gpu=False)
    attributed = program.found(tmp_path)
    assert [attributed.layer(item) for item in (first, second, last)] == ["", "layers.0", "layers.0"]


def test_a_pass_does_not_reach_over_the_forward_work_before_it(tmp_path: Path) -> None:
    program = Program()
    program.forward(5, "layers.0", "addmm")
    program.backward(5, "AddmmBackward0", thread=MAIN)
    program.forward(6, "layers.1", "addmm")
    lost = program.between(thread=MAIN)
    assert program.found(tmp_path).layer(lost) == ""


def test_modules_called_in_the_backward_pass_name_their_own_layer(tmp_path: Path) -> None:
    """Tested with a function whose backward calls a module, and with checkpointing, whose recomputation is forward work and makes nodes."""
    program = Program()
    program.forward(5, "layers.0", "addmm")
    called = program.recomputed("layers.1", "addmm", 5, BACKWARD | ONE)
    again = program.recomputed("layers.0.attn", "addmm", 3, OTHER)
    back = program.backward(3, "AddmmBackward0", number=OTHER)
    attributed = program.found(tmp_path)
    assert [attributed.layer(item) for item in (called, again, back)] == ["layers.1", "layers.0/attn", "layers.0/attn"]
    assert attributed.origins.backward[[called, again, back]].tolist() == [False, False, True]
    assert attributed.op(called) == "aten::addmm"


def test_calls_of_modules_name_the_layer_where_there_are_some(tmp_path: Path) -> None:
    """CPU samples see a node now and then; its number was seen in the forward pass hardly ever."""
    program = Program()
    program.call("layers.0", 0, 10, 1, 5)
    program.call("layers.0.attn", 4, 6, 2, 3)
    program.call("layers.1", 10, 20, 5, 9)
    seen = program.forward(12, "layers.1", "addmm", gpu=False)
    nodes = {5: "layers.0/attn", 7: "layers.0", 19: "layers.1", 25: ""}
    back = [program.backward(sequence, "AddmmBackward0", gpu=False, time=1000 + sequence) for sequence in nodes]
    attributed = program.found(tmp_path)
    assert [attributed.layer(item) for item in back] == list(nodes.values())
    assert attributed.origins.stack[back].tolist() == [0, 0, program.items[seen]["stack"], 0]


def test_the_call_that_made_a_node_wins_over_its_neighbours(tmp_path: Path) -> None:
    """`chunk` launches nothing in the forward pass. The calls before and after it belong to other modules."""
    program = Program()
    for first, last, layer in ((4, 5, "layers.0"), (5, 6, "layers.0.attn"), (6, 9, "layers.1"), (11, 12, "layers.1")):
        program.call(layer, first, last, first, last - 1)
    program.forward(4, "layers.0", "addmm")
    program.forward(6, "layers.1", "addmm")
    back = program.backward(5, "SplitBackward0", "cat")
    assert program.found(tmp_path).layer(back) == "layers.0/attn"


def test_a_launch_of_the_forward_pass_wins_over_the_call(tmp_path: Path) -> None:
    """The launch's stack has all modules around the innermost one, which is unambiguous for a module that hangs in several places."""
    program = Program()
    program.call("layers.0", 4, 6, 1, 2)
    program.forward(5, "layers.0.attn", "addmm")
    back = program.backward(5, "AddmmBackward0")
    assert program.found(tmp_path).layer(back) == "layers.0/attn"


def test_a_node_outside_all_calls_has_no_layer_where_calls_are_recorded_around_it(tmp_path: Path) -> None:
    """Older profiles have calls up to the first launch only: a node after the last call then lies between its neighbours."""
    program = Program()
    program.call("layers.0", 4, 6, 1, 2)
    program.call("layers.0", 8, 10, 3, 4)
    for sequence in (6, 8, 10, 13):
        program.forward(sequence, "layers.0", "addmm")
    back = [program.backward(sequence, "ViewBackward0") for sequence in (7, 9, 12)]
    attributed = program.found(tmp_path)
    assert [attributed.layer(item) for item in back] == ["", "layers.0", "layers.0"]


def test_without_numbers_the_stack_still_shows_the_backward_pass(tmp_path: Path) -> None:
    program = Program()
    stack = program.stack(None, "torch::autograd::Node::operator()", "torch::autograd::generated::AddmmBackward0::apply")
    item = program.item(MAIN, stack, 0, 0)
    attributed = program.found(tmp_path)
    assert (attributed.origins.backward[item], attributed.op(item), attributed.layer(item)) == (True, "aten::addmm", "")


def test_a_gradient_taken_inside_a_module_belongs_to_that_module_by_default(tmp_path: Path) -> None:
    program = Program()
    item = program.item(MAIN, program.stack("layers.1", "torch::autograd::Node::operator()"), BACKWARD | ONE, 5)
    assert program.found(tmp_path).layer(item) == "layers.1"


def test_no_items(tmp_path: Path) -> None:
    program = Program()
    program.forward(1, "layers.0")
    profile = program.found(tmp_path)
    empty = origins(open_profile(tmp_path / "p.aiflame"), profile.items.clear(), profile.layers, profile.ops)
    assert len(empty.layer) == len(empty.op) == len(empty.stack) == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["forward", "backward", "between", "sum"]),
            st.integers(0, 12) | st.integers(0, 0xFFFFFFFF),
            st.sampled_from([0, 1, 2]),
            st.sampled_from(list(MODULES)),
            st.integers(0, 50),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_every_item_gets_an_answer_and_forward_work_its_own(
    tmp_path_factory: object, rows: list[tuple[str, int, int, str, int, bool]]
) -> None:
    program = Program()
    program.stack("layers.0", "at::_ops::addmm::call")
    for kind, sequence, number, layer, time, gpu in rows:
        if kind == "forward":
            program.forward(sequence, layer, "addmm", number=number, time=1 + time, gpu=gpu)
        elif kind == "sum":
            program.sum(sequence, number, gpu=gpu, row={"begin_ns": 1 + time})
        elif kind == "backward":
            program.backward(sequence, "AddmmBackward0", number=number, time=1 + time, gpu=gpu)
        else:
            program.between(time=1 + time, gpu=gpu)
    if not rows:
        return
    attributed = program.found(tmp_path_factory.mktemp("p"))  # type: ignore[attr-defined]
    size = len(attributed.layers.forest.parent)
    assert len(attributed.origins.layer) == len(rows)
    assert ((attributed.origins.layer >= 0) & (attributed.origins.layer < size)).all()
    for item, (kind, _, number, layer, _, _) in enumerate(rows):
        if kind == "forward":
            assert attributed.layer(item) == {"": "Module"}.get(layer, layer.replace(".attn", "/attn"))
        elif kind in ("between", "sum") or number > 0:
            assert attributed.origins.backward[item]
    # A backward item's layer, if it has one, is a layer of some forward work, or one above it.
    layers = set(attributed.origins.layer[~attributed.origins.backward].tolist())
    above = {int(attributed.layers.forest.parent[node]) for node in layers if node}
    assert set(attributed.origins.layer[attributed.origins.backward].tolist()) <= layers | above | {0}
    assert np.isin(attributed.origins.stack, [0, *attributed.items["stack"].to_list()]).all()
