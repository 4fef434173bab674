"""The arithmetic of the report's flame graph, run by Node: the same as the transforms of trees in Python, stack by stack."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import report_facts as facts

from aiflame.attribute.transforms.filters import focus, hide
from aiflame.attribute.transforms.invert import invert
from aiflame.attribute.transforms.recursion import merge_recursion
from aiflame.attribute.tree import GPU_TIME, Frame, Kind, Tree, from_stacks
from aiflame.render.bundle import WEB

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="the worker's modules are run by Node, which is not on the PATH")
Stacks = dict[tuple[str, ...], int]
Ask = Callable[..., dict[str, Any]]

SCRIPT = """
import { readFileSync } from "node:fs";
import { readBlock } from "./blocks.js";
import { FLAME_CALLS } from "./report/worker/rpc_flame.js";
const [files, given] = JSON.parse(readFileSync(0, "utf-8"));
const blocks = { get: (name) => readBlock(readFileSync(files[name])) };
const base = "base.device" in files;
const asked = { domain: "device", metric: "gpu-time", by: "code", base, ...given };
const { name, kind } = await FLAME_CALLS.frames(blocks, { domain: "device", base });
const { answer, transfer } = await FLAME_CALLS.flame(blocks, asked);
const plain = (value) => (ArrayBuffer.isView(value) ? [...value] : Array.isArray(value) ? value.map(plain) : value);
console.log(JSON.stringify({
  ...Object.fromEntries(Object.entries(answer).map(([key, value]) => [key, plain(value)])),
  names: [...answer.frame].map((row) => name[row]), kinds: [...answer.frame].map((row) => kind[row]),
  moved: transfer.length, domain: await FLAME_CALLS.domain(blocks, asked),
}));
"""


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Asks the worker's call `flame` about blocks."""
    home = tmp_path_factory.mktemp("worker")
    shutil.copytree(WEB, home / "web")
    (home / "web" / "package.json").write_text('{"type": "module"}')
    (home / "web" / "ask.js").write_text(SCRIPT)

    def answer(blocks: Mapping[str, bytes] | bytes, **given: object) -> dict[str, Any]:
        named = {"facts.device": blocks} if isinstance(blocks, bytes) else blocks
        files = {name: str(home / name) for name in named}
        for name, data in named.items():
            (home / name).write_bytes(data)
        assert NODE is not None
        run = subprocess.run([NODE, home / "web" / "ask.js"], input=json.dumps([files, given]), capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        graph: dict[str, Any] = json.loads(run.stdout)
        return graph

    return answer


def stacks_of(graph: Mapping[str, Any], column: int = 0) -> Stacks:
    """Each stack with its own value, as the worker laid them out."""
    paths: list[tuple[str, ...]] = []
    own: Stacks = Counter()
    for node, parent in enumerate(graph["parent"]):
        paths.append(() if parent < 0 else (*paths[parent], graph["names"][node]))
        if graph["own"][column][node]:
            own[paths[node]] += graph["own"][column][node]
    return dict(own)


def stacks_of_tree(tree: Tree) -> Stacks:
    names = tree.frames["name"].to_list()
    paths: list[tuple[str, ...]] = []
    own: Stacks = Counter()
    for node, parent in enumerate(tree.parent.tolist()):
        paths.append(() if parent < 0 else (*paths[parent], names[tree.frame[node]]))
        if tree.values["gpu-time"][node]:
            own[paths[node]] += int(tree.values["gpu-time"][node])
    return dict(own)


def frames_of(stack: tuple[str, ...]) -> tuple[Frame, ...]:
    return tuple(Frame(name, Kind.PYTHON) for name in stack)


def facts_of(stacks: Stacks) -> bytes:
    """Each stack a site."""
    return facts.facts([facts.Site({"code": frames_of(stack)}, [facts.Leaf({"gpu-time": value})]) for stack, value in stacks.items()])


def tree_of(stacks: Stacks) -> Tree:
    return from_stacks([(frames_of(stack), value) for stack, value in stacks.items()], GPU_TIME)


def random_stacks(seed: int) -> Stacks:
    """Few names and deep stacks: recursion of all kinds, equal names everywhere."""
    chance = random.Random(seed)
    return {tuple(chance.choice("abc") for _ in range(chance.randint(1, 12))): chance.randint(1, 100) for _ in range(60)}


@pytest.fixture(params=[1, 2, 3])
def stacks(request: pytest.FixtureRequest) -> Stacks:
    return random_stacks(request.param)


def test_a_tree_has_the_stacks_of_its_facts(ask: Ask, stacks: Stacks) -> None:
    assert stacks_of(ask(facts_of(stacks))) == stacks


def test_inverted_as_in_python(ask: Ask, stacks: Stacks) -> None:
    assert stacks_of(ask(facts_of(stacks), inverted=True)) == stacks_of_tree(invert(tree_of(stacks)))


def test_recursion_is_collapsed_as_in_python(ask: Ask, stacks: Stacks) -> None:
    assert stacks_of(ask(facts_of(stacks), recursion=True)) == stacks_of_tree(merge_recursion(tree_of(stacks)))


def test_hidden_frames_leave_their_callees_in_their_place_as_in_python(ask: Ask, stacks: Stacks) -> None:
    assert stacks_of(ask(facts_of(stacks), hide="b")) == stacks_of_tree(hide(tree_of(stacks), "^b$"))


def test_merged_names_are_outermost_as_python_focuses(ask: Ask, stacks: Stacks) -> None:
    assert stacks_of(ask(facts_of(stacks), merge="b")) == stacks_of_tree(focus(tree_of(stacks), "^b$"))


def test_focus_keeps_the_stacks_through_a_frame_whole(ask: Ask, stacks: Stacks) -> None:
    assert stacks_of(ask(facts_of(stacks), focus="b")) == {stack: value for stack, value in stacks.items() if "b" in stack}


def test_focus_on_two_names_keeps_the_stacks_with_both(ask: Ask, stacks: Stacks) -> None:
    assert stacks_of(ask(facts_of(stacks), focus="b;c")) == {stack: value for stack, value in stacks.items() if {"b", "c"} <= set(stack)}


def test_a_sandwich_has_callees_from_the_outermost_and_callers_above(ask: Ask, stacks: Stacks) -> None:
    graph = ask(facts_of(stacks), sandwich="b")
    through = {stack: value for stack, value in stacks.items() if "b" in stack}
    callees: Stacks = Counter()
    callers: Stacks = Counter()
    for stack, value in through.items():
        at = stack.index("b")
        callees[stack[at + 1 :]] += value
        callers[stack[:at][::-1]] += value
    split = graph["upper"]
    own = stacks_of(graph)
    below = stacks_of({**graph, "parent": graph["parent"][:split]})
    above = {stack: value for stack, value in callers.items() if stack}
    assert graph["names"][0] == "b"
    assert graph["total"][0][0] == sum(through.values())
    assert below == dict(callees)
    assert own == dict(Counter(callees) + Counter(above))
    assert min(graph["depth"]) == -max(map(len, callers))


def test_left_edges_lie_side_by_side_and_rows_are_from_left_to_right(ask: Ask, stacks: Stacks) -> None:
    graph = ask(facts_of(stacks))
    left, total, own = graph["left"], graph["total"][0], graph["own"][0]
    for node in range(graph["count"]):
        children = [child for child in range(node + 1, graph["after"][node]) if graph["parent"][child] == node]
        edge = left[node]
        for child in children:
            assert left[child] == edge
            edge += total[child]
        assert edge == left[node] + total[node] - own[node]
    for row, (begin, end) in enumerate(zip(graph["starts"], graph["starts"][1:], strict=False)):
        nodes = graph["rows"][begin:end]
        assert [graph["depth"][node] for node in nodes] == [row] * len(nodes)
        assert [left[node] for node in nodes] == sorted(left[node] for node in nodes)


def children_of_root(graph: Mapping[str, Any]) -> list[str]:
    return [name for name, parent in zip(graph["names"], graph["parent"], strict=True) if parent == 0]


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("name", ["a", "layers.2", "layers.10", "[GPU idle]"]),
        ("width", ["layers.10", "[GPU idle]", "a", "layers.2"]),
        ("time", ["layers.2", "layers.10", "[GPU idle]", "a"]),
    ],
)
def test_siblings_stand_in_the_order_asked_for(ask: Ask, order: str, names: list[str]) -> None:
    def site(name: str, value: int, first: int, kind: Kind = Kind.LAYER) -> facts.Site:
        return facts.Site({"code": (Frame(name, kind),)}, [facts.Leaf({"gpu-time": value})], first=first)

    block = facts.facts([site("layers.10", 50, 2), site("layers.2", 5, 1), site("a", 10, 4), site("[GPU idle]", 20, 3, Kind.GPU_IDLE)])
    assert children_of_root(ask(block, order=order, idle="1")) == names


def test_work_without_a_layer_is_a_group_only_beside_work_with_one(ask: Ask) -> None:
    def site(process: str, layer: str | None, value: int) -> facts.Site:
        paths = {"process": facts.process(process), "op": (Frame("aten::mm", Kind.OP),), "kernel": facts.kernel("gemm")}
        if layer:
            paths["layer"] = (Frame(layer, Kind.LAYER),)
        return facts.Site(paths, [facts.Leaf({"gpu-time": value})])

    block = facts.facts([site("one", "mlp", 1), site("one", None, 2), site("two", None, 4)])
    assert stacks_of(ask(block, by="layer")) == {
        ("one", "mlp", "aten::mm", "gemm"): 1,
        ("one", "[no layer]", "aten::mm", "gemm"): 2,
        ("two", "aten::mm", "gemm"): 4,
    }


@pytest.mark.parametrize(
    ("detail", "stack"),
    [
        ("function", ("gemm", "dot")),
        ("line", ("gemm", "dot", "gemm.py:41")),
        ("instruction", ("gemm", "dot", "gemm.py:41", "LDG", "long_scoreboard", "+0x10")),
    ],
)
def test_detail_says_how_far_a_kernel_is_looked_into(ask: Ask, detail: str, stack: tuple[str, ...]) -> None:
    kinds = [Kind.GPU_KERNEL, Kind.GPU_LINE, Kind.GPU_INSTRUCTION, Kind.GPU_STALL, Kind.GPU_OFFSET]
    inside = tuple(map(Frame, ("dot", "gemm.py:41", "LDG", "long_scoreboard", "+0x10"), kinds))
    block = facts.facts([facts.Site({"kernel": facts.kernel("gemm")}, [facts.Leaf({"gpu-stalls": 9}, inside)])], ("gpu-stalls",))
    assert stacks_of(ask(block, metric="gpu-stalls", detail=detail)) == {stack: 9}


def test_samples_are_looked_into_unless_told_otherwise(ask: Ask) -> None:
    block = facts.facts([facts.Site({"kernel": facts.kernel("gemm")}, [facts.Leaf({"gpu-stalls": 9})])], ("gpu-stalls",))
    assert ask(block, metric="gpu-stalls")["detail"] == "instruction"
    assert ask(facts_of({("a",): 1}))["detail"] == "function"


def test_a_range_takes_of_each_site_the_part_that_fell_into_it(ask: Ask) -> None:
    block = facts.facts(facts.small())
    by_kernel = {stack[-1]: value for stack, value in stacks_of(ask(block, by="family", range="1-1", idle="1")).items()}
    assert by_kernel == {"gemm": 300, "[GPU idle]": 150}
    assert ask(block, range="0-2", idle="1")["total"][0][0] == 1000


def test_parts_of_whole_numbers_stay_whole_and_add_up(ask: Ask) -> None:
    sites = [
        facts.Site(
            {"code": frames_of((name,))}, [facts.Leaf({"gpu-time": 5}, frames_of((f"line {at}",))) for at in range(7)], moments={0: 1, 1: 2}
        )
        for name in "abc"
    ]
    graph = ask(facts.facts(sites), range="0-0")
    assert graph["total"][0][0] == 35
    assert all(value == int(value) for value in graph["own"][0])


def test_steps_group_the_work_within_them(ask: Ask) -> None:
    by_stack = stacks_of(ask(facts.facts(facts.small()), by="step", hide="kind:layer;kind:op;kind:phase", idle="0"))
    assert {stack[1:]: value for stack, value in by_stack.items()} == {
        ("Step.1", "gemm"): 200, ("Step.1", "softmax"): 250, ("Step.2", "gemm"): 400,
    }  # fmt: skip


def test_chosen_steps_alone(ask: Ask) -> None:
    graph = ask(facts.facts(facts.small()), by="op", steps="2-2", idle="1")
    assert {stack[-1]: value for stack, value in stacks_of(graph).items()} == {"gemm": 400}


def compared(answer: Any) -> dict[str, tuple[float, float]]:
    """By the names of leaves: their value, and their value in the nodes that they are compared with."""
    by_name: dict[str, tuple[float, float]] = {}
    for column in (0, 2):
        for stack, value in stacks_of(answer, column).items():
            pair = list(by_name.get(stack[-1], (0.0, 0.0)))
            pair[column // 2] += value
            by_name[stack[-1]] = (pair[0], pair[1])
    return by_name


def ran(name: str, **when: Any) -> facts.Site:
    moments, slots = when.get("moments", {}), when.get("slots", {})
    total = sum(moments.values()) or sum(slots.values())
    return facts.Site({"kernel": facts.kernel(name)}, [facts.Leaf({"gpu-time": total})], moments=moments, slots=slots)


def test_a_range_compared_with_the_rest_is_scaled_to_its_length(ask: Ask) -> None:
    """2 bins of 10 against the 8 others: a function that ran evenly has the same time for each second of both."""
    block = facts.facts(
        [ran("even", moments=dict.fromkeys(range(10), 40)), ran("burst", moments={4: 100}), ran("gone", moments={9: 80})], bins=10
    )
    graph = ask(block, by="family", range="4-5", against=True)
    assert compared(graph) == {"even": (80, 80), "burst": (100, 0), "gone": (0, 20)}
    assert graph["scaled"] == 0.25


def test_a_range_compared_with_the_rest_by_shares(ask: Ask) -> None:
    block = facts.facts([ran("even", moments=dict.fromkeys(range(10), 40)), ran("burst", moments={4: 80})], bins=10)
    graph = ask(block, by="family", range="4-5", against=True, scale="total")
    assert compared(graph) == {"even": (80, 160), "burst": (80, 0)}


def test_steps_are_compared_with_the_other_steps_but_the_first_which_warms_up(ask: Ask) -> None:
    """Step 3 against 1, 2 and 4; work outside all steps is not compared."""
    even = ran("even", slots={(step, 10): 30 for step in range(5)})
    slow = ran("slow", slots={(3, 50): 90})
    compiles = ran("compiles", slots={(0, 5): 1000})
    outside = ran("outside", moments={0: 500})
    graph = ask(facts.facts([even, slow, compiles, outside]), by="family", steps="3-3", against=True)
    assert compared(graph) == {"even": (30, 30), "slow": (90, 0)}


def test_steps_grouped_by_step_are_those_of_both_sides(ask: Ask) -> None:
    block = facts.facts([ran("even", slots={(step, 10): 30 for step in range(5)})])
    graph = ask(block, by="step", steps="3-3", against=True)
    assert stacks_of(graph) == {("Step.3", "even"): 30}
    assert stacks_of(graph, 2) == {(f"Step.{step}", "even"): 10 for step in (1, 2, 4)}


def test_all_of_a_run_has_no_rest(ask: Ask) -> None:
    graph = ask(facts.facts([ran("even", moments=dict.fromkeys(range(10), 40))], bins=10), by="family", range="0-9", against=True)
    assert compared(graph) == {"even": (400, 0)}


def test_a_baseline_is_scaled_to_the_same_total_where_that_is_asked_for(ask: Ask) -> None:
    now, base = facts_of({("a",): 100, ("b",): 300}), facts_of({("a",): 50, ("c",): 150})
    both = {"facts.device": now, "base.device": base}
    assert compared(ask(both)) == {"a": (100, 50), "b": (300, 0), "c": (0, 150)}
    assert compared(ask(both, scale="total")) == {"a": (100, 100), "b": (300, 0), "c": (0, 300)}


def test_a_baseline_that_was_sampled_twice_as_often_counts_half(ask: Ask) -> None:
    def block(count: int, period: int) -> bytes:
        return facts.facts(
            [facts.Site({"kernel": facts.kernel("gemm")}, [facts.Leaf({"gpu-stalls": count})])], ("gpu-stalls",), period_log2=period
        )

    both = {"facts.device": block(10, 20), "base.device": block(30, 19)}
    graph = ask(both, metric="gpu-stalls")
    assert (compared(graph), graph["scaled"]) == ({"gemm": (10, 15)}, 0.5)
    assert compared(ask(both, metric="gpu-stalls", scale="total")) == {"gemm": (10, 10)}


def test_scaled_samples_keep_their_parts(ask: Ask) -> None:
    """A tenth of a sample is not rounded away: it would count as gone."""
    now, base = facts_of({("a",): 1, ("b",): 1}), facts_of({("a",): 1, ("b",): 19})
    by_name = compared(ask({"facts.device": now, "base.device": base}, scale="total"))
    assert by_name["a"] == pytest.approx((1, 0.1))


def test_steps_are_a_grouping_where_there_are_steps(ask: Ask) -> None:
    assert "step" in [one["name"] for one in ask(facts.facts(facts.small()))["domain"]["groupings"]]
    assert "step" not in [one["name"] for one in ask(facts_of({("a",): 1}))["domain"]["groupings"]]


def test_idle_time_that_would_hide_all_else_is_left_out_until_asked_for(ask: Ask) -> None:
    def block(idle: int) -> bytes:
        alone = (Frame("[GPU idle]", Kind.GPU_IDLE),)
        return facts.facts(
            [
                facts.Site({"alone": alone}, [facts.Leaf({"gpu-time": idle})]),
                facts.Site({"code": frames_of(("a",))}, [facts.Leaf({"gpu-time": 100})]),
            ]
        )

    assert ask(block(99))["total"][0][0] == 199
    assert ask(block(300))["total"][0][0] == 100
    assert ask(block(300))["idle"] == {"share": 0.75, "shown": False}
    assert ask(block(300), idle="1")["total"][0][0] == 400
    assert ask(block(99), idle="0")["total"][0][0] == 100


def test_launches_are_counted_up_to_the_root(ask: Ask) -> None:
    graph = ask(facts.facts(facts.small()), by="op", idle="1")
    launches = dict(zip(graph["names"], graph["total"][1], strict=True))
    assert launches | {"gemm": 6, "softmax": 5, "all": 11, "[GPU idle]": 0} == launches


def test_a_baseline_meets_the_same_functions_whatever_their_line_and_process_number(ask: Ask) -> None:
    def block(pid: int, line: int, values: Mapping[str, int]) -> bytes:
        return facts.facts(
            [
                facts.Site(
                    {"process": facts.process(f"train.py ({pid})"), "code": (Frame(name, Kind.PYTHON, "/a.py", line),)},
                    [facts.Leaf({"gpu-time": value})],
                )
                for name, value in values.items()
            ]
        )

    both = {"facts.device": block(7, 10, {"slower": 30, "new": 5}), "base.device": block(9, 12, {"gone": 7, "slower": 20})}
    graph = ask(both)
    assert stacks_of(graph, 0) == {("train.py (7)", "slower"): 30, ("train.py (7)", "new"): 5}
    assert stacks_of(graph, 2) == {("train.py (7)", "slower"): 20, ("train.py (7)", "gone"): 7}
    by_base = ask(both, widths="base")
    widths = dict(zip(by_base["names"], by_base["total"][2], strict=True))
    assert widths["gone"] == 7
    lefts = dict(zip(by_base["names"], by_base["left"], strict=True))
    assert lefts["slower"] - lefts["gone"] in (7, -20)


def test_buffers_are_handed_over_not_copied(ask: Ask) -> None:
    assert ask(facts_of({("a",): 1}))["moved"] >= 11
