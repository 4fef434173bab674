"""Graphs of the tree in an SVG, made by its script in Node: order, hidden kinds, folded frames, widths of the base."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sample_trees as trees

from aiflame.attribute.tree import CPU_TIME, Frame, Kind, Tree, from_stacks
from aiflame.render.bundle import WEB
from aiflame.render.flame_svg import svg

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="the viewer's modules are run by Node, which is not on the PATH")
Ask = Callable[..., dict[str, Any]]

SCRIPT = """
import { readFileSync } from "node:fs";
import { readBlock } from "./blocks.js";
import { FlameFile } from "./flame_svg/file.js";
import { factsOf } from "./flame/words.js";
const [path, how, wanted] = JSON.parse(readFileSync(0, "utf-8"));
const { model, nodeOf, inFile } = new FlameFile(await readBlock(readFileSync(path))).graph(how);
const nodes = [...Array(model.count).keys()];
console.log(JSON.stringify({
  stacks: nodes.map((node) => model.stack(node).map((one) => model.name(one)).join(";")),
  width: [...model.width], own: [...model.ownWidth], left: [...model.left], inFile: [...inFile], nodes: wanted.map(nodeOf),
  facts: nodes.map((node) => factsOf({ model, zoom: 0 }, node)),
}));
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("viewer")
    shutil.copytree(WEB, folder / "web")
    (folder / "web" / "package.json").write_text('{"type": "module"}')
    (folder / "web" / "ask.js").write_text(SCRIPT)
    return folder


@pytest.fixture
def ask(home: Path) -> Ask:
    """The script's graph of a tree's file, and the places of the file's nodes `wanted`."""

    def answer(tree: Tree, wanted: tuple[int, ...] = (), options: dict[str, Any] | None = None, **how: object) -> dict[str, Any]:
        out = io.StringIO()
        if len(tree.metrics) > 1:
            svg.write_diff(tree, out, "T", "", **(options or {}))
        else:
            svg.write(tree, tree.metrics[0].name, out, "T", "", **(options or {}))
        data = re.search(r"<metadata[^>]*>([^<]*)<", out.getvalue())
        assert data and NODE
        (home / "block").write_bytes(base64.b64decode(data[1]))
        given = json.dumps([str(home / "block"), how, wanted])
        run = subprocess.run([NODE, home / "web" / "ask.js"], input=given, capture_output=True, text=True, check=False, timeout=120)
        assert run.returncode == 0, run.stderr
        graph: dict[str, Any] = json.loads(run.stdout)
        return graph

    return answer


def in_ms(graph: dict[str, Any], what: str) -> dict[str, int]:
    return {stack: value // trees.MS for stack, value in zip(graph["stacks"], graph[what], strict=True)}


def test_the_nodes_are_those_of_the_file(ask: Ask) -> None:
    graph = ask(trees.small())
    assert graph["inFile"] == [0, 1, 2, 3, 4, 5]
    assert in_ms(graph, "width") == {
        "all": 1000,
        "main": 1000,
        "main;idle_wait": 300,
        "main;work": 700,
        "main;work;Gemm": 600,
        "main;work;Gemm;work": 200,
    }
    assert in_ms(graph, "left")["main;work"] == 300


def test_the_widest_come_first_and_keep_their_numbers_in_the_file(ask: Ask) -> None:
    graph = ask(trees.small(), (2, 3), byWidth=True)
    assert graph["stacks"][2:] == ["main;work", "main;work;Gemm", "main;work;Gemm;work", "main;idle_wait"]
    assert graph["nodes"] == [5, 2]
    assert graph["inFile"] == [0, 1, 3, 4, 5, 2]


def test_values_of_hidden_frames_go_to_their_callers(ask: Ask) -> None:
    graph = ask(trees.small(), (4, 5), hidden=[int(Kind.CPP)])
    assert in_ms(graph, "width") == {"all": 1000, "main": 1000, "main;idle_wait": 300, "main;work": 700, "main;work;work": 200}
    assert in_ms(graph, "own")["main;work"] == 500
    assert graph["nodes"] == [graph["stacks"].index("main;work"), graph["stacks"].index("main;work;work")]


def test_equal_siblings_under_a_hidden_frame_become_one(ask: Ask) -> None:
    one, other = Frame("one", Kind.C), Frame("other", Kind.C)
    leaf = Frame("leaf", Kind.PYTHON)
    graph = ask(from_stacks([([one, leaf], 3 * trees.MS), ([other, leaf], 4 * trees.MS)], CPU_TIME), hidden=[int(Kind.C)])
    assert in_ms(graph, "width") == {"all": 7, "leaf": 7}


def test_everything_hidden_is_the_root(ask: Ask) -> None:
    graph = ask(trees.small(), (5,), hidden=[int(kind) for kind in Kind])
    assert (graph["stacks"], graph["nodes"], graph["own"]) == (["all"], [0], [1000 * trees.MS])


def test_folded_callees_count_in_a_frame_but_are_not_its_own(ask: Ask) -> None:
    graph = ask(trees.small(), options={"min_share": 0.25})
    assert in_ms(graph, "width")["main;work;Gemm"] == 600
    assert in_ms(graph, "own")["main;work;Gemm"] == 400


def test_widths_of_the_base_show_frames_that_are_gone(ask: Ask) -> None:
    new, base = ask(trees.difference()), ask(trees.difference(), byBase=True)
    assert (in_ms(new, "width")["main;gone"], in_ms(base, "width")["main;gone"]) == (0, 100)
    assert (in_ms(new, "width")["main;added"], in_ms(base, "width")["main;added"]) == (100, 0)
    at = base["stacks"].index("main;gone")
    assert base["facts"][at][-1] == ["before → now", "100 ms → 0 ns · gone"]
