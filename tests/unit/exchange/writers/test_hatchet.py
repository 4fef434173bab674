"""hatchet's literal tree, read by hatchet itself where it is installed."""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import Any

import pytest
from calling import run_aiflame
from exported_profiles import listed, training
from hypothesis import given
from trees import TREES, paths

from aiflame.attribute.tree import CPU_TIME, Frame, Kind, Tree, from_stacks
from aiflame.exchange.writers import hatchet


def literal(tree: Tree) -> list[dict[str, Any]]:
    text = io.StringIO()
    hatchet.write(tree, tree.metrics[0].name, text)
    answer: list[dict[str, Any]] = json.loads(text.getvalue())
    return answer


@given(TREES)
def test_every_stack_is_a_path_with_its_value(tree: Tree) -> None:
    values: Counter[tuple[str, ...]] = Counter()

    def walk(node: dict[str, Any], path: tuple[str, ...]) -> int:
        metrics = node["metrics"]
        assert metrics["time"] == metrics["cpu-time"]
        if metrics["time"]:
            values[path] += metrics["time"]
        whole: int = metrics["time"] + sum(walk(child, (*path, child["frame"]["name"])) for child in node["children"])
        assert metrics["time (inc)"] == whole
        return whole

    (root,) = literal(tree)
    assert walk(root, ()) == tree.total("cpu-time")
    assert values == paths(tree)


def test_deep_stacks_are_written_without_recursion() -> None:
    text = io.StringIO()
    hatchet.write(from_stacks([(tuple(Frame(f"f{at}", Kind.C) for at in range(5000)), 1)], CPU_TIME), "cpu-time", text)
    assert text.getvalue().count('"children":[') == 5001 == text.getvalue().count("]}")


def test_hatchet_reads_it(tmp_path: Any) -> None:
    graph_frame = pytest.importorskip("hatchet", reason="llnl-hatchet is not installed").GraphFrame
    profile = training(tmp_path)
    file = tmp_path / "run.json"
    assert run_aiflame("export", str(profile.path), "--to", "hatchet", "--raw", "--detail", "function", "-o", str(file)).status == 0
    frame = graph_frame.from_literal(json.loads(file.read_text()))
    assert {"gpu-time", "bytes", "cpu-time"} <= set(frame.exc_metrics) and "gpu-time (inc)" in frame.inc_metrics
    rows = frame.dataframe
    for metric in ("gpu-time", "bytes", "gpu-stalls"):
        own = rows.groupby("name")[metric].sum().to_dict()
        assert {name: value for name, value in own.items() if value} == {
            name: own for name, (own, _, _) in listed(profile, metric, "function").items() if own
        }
