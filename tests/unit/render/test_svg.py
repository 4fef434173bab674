"""The file itself: well-formed, self-contained, and its data is the tree."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import sample_trees as trees
from test_blocks import opened

from aiflame.analyze.amounts import amount, share
from aiflame.attribute.tree import CPU_TIME, Frame, Kind, Tree, from_stacks
from aiflame.render.flame_svg import svg

SVG = "{http://www.w3.org/2000/svg}"


def written(tree: Tree, metric: str = "cpu-time", title: str = "T", subtitle: str = "", **options: Any) -> str:
    out = io.StringIO()
    svg.write(tree, metric, out, title, subtitle, **options)
    return out.getvalue()


def data_of(text: str) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The head of the block in the file, and its columns."""
    node = ElementTree.fromstring(text).find(f"{SVG}metadata")
    assert node is not None and node.text
    return opened(base64.b64decode(node.text))


def test_the_data_is_the_tree() -> None:
    _, columns = data_of(written(trees.small()))
    names = [columns["frame.name"][frame] for frame in columns["node.frame"]]
    assert names == ["all", "main", "idle_wait", "work", "Gemm", "work"]
    assert columns["node.depth"] == [0, 1, 2, 2, 3, 4]
    assert [value // trees.MS for value in columns["node.own.0"]] == [0, 0, 300, 100, 400, 200]
    frame = columns["node.frame"][4]
    assert columns["module"][columns["frame.module"][frame]] == "libmath.so"
    assert columns["frame.kind"][frame] == Kind.CPP


def test_values_of_any_size_survive() -> None:
    huge = 2**52 + 12345
    _, columns = data_of(written(from_stacks([([Frame("f", Kind.C)], huge), ([], 1)], CPU_TIME)))
    assert columns["node.own.0"] == [1, huge]


def test_folded_frames_are_counted() -> None:
    head, columns = data_of(written(trees.small(), min_share=0.25))
    assert head["foldedNodes"] == 1
    assert [value // trees.MS for value in columns["node.folded.0"]] == [0, 0, 0, 0, 200]


def test_a_file_and_a_stream_get_the_same(tmp_path: Path) -> None:
    svg.write(trees.small(), "cpu-time", tmp_path / "a.svg", "T", "")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == written(trees.small())


@pytest.mark.parametrize("tree", [trees.hostile(), trees.small(), from_stacks([], CPU_TIME)], ids=["hostile", "small", "empty"])
def test_it_is_xml_with_nothing_to_run_but_our_script(tree: Tree) -> None:
    text = written(tree, title=trees.HOSTILE_NAMES[1], subtitle=trees.HOSTILE_NAMES[4])
    root = ElementTree.fromstring(text)
    tags = [node.tag.removeprefix(SVG) for node in root.iter()]
    assert tags.count("script") == 1
    assert set(tags) <= {"svg", "title", "style", "g", "rect", "path", "text", "metadata", "script"}
    attributes = [(name, value) for node in root.iter() for name, value in node.attrib.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or "href" in name]


def test_it_asks_for_nothing_from_outside() -> None:
    text = written(trees.small())
    links = set(re.findall(r"(?:https?:)?//[\w.]+/[\w./]*", text.split("<metadata")[0] + text.split("</metadata>")[1]))
    assert links <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}
    assert not re.search(r"\burl\(|@import|fetch\(|XMLHttpRequest|import\(|innerHTML|\beval\(", text)


def test_script_and_style_cannot_end_their_section() -> None:
    parts = list((Path(svg.__file__).parents[1] / "web").rglob("*.*"))
    assert {"main.js", "style.css"} <= {path.name for path in parts}
    for path in parts:
        assert "]]>" not in path.read_text(encoding="utf-8")


def test_the_still_picture_shows_wide_frames_and_shares() -> None:
    root = ElementTree.fromstring(written(trees.small(), title="My title", subtitle="my subtitle"))
    texts = [node.text for node in root.iter(f"{SVG}text")]
    assert {"My title", "my subtitle · CPU time 1 s", "main", "work", "Gemm", "idle_wait", "C++ 60.0%", "Python 100.0%"} <= set(texts)


def test_a_still_picture_grows_with_its_rows_and_has_a_limit() -> None:
    heights = [int(ElementTree.fromstring(written(trees.recursion(depth))).attrib["height"]) for depth in (10, 20, 5_000)]
    assert heights[1] - heights[0] == 170
    assert heights[2] < 7_000


def test_the_callers_are_at_the_bottom_or_when_inverted_at_the_top() -> None:
    def height_of(text: str, label: str) -> float:
        return next(float(node.attrib["y"]) for node in ElementTree.fromstring(text).iter(f"{SVG}text") if node.text == label)

    upright, inverted = written(trees.small()), written(trees.small(), inverted=True)
    assert height_of(upright, "main") > height_of(upright, "Gemm")
    assert height_of(inverted, "main") < height_of(inverted, "Gemm")


def test_a_kind_inside_itself_counts_once() -> None:
    c, cpp = Frame("c", Kind.C), Frame("cpp", Kind.CPP)
    text = written(from_stacks([([c, cpp, c], 10), ([cpp], 30)], CPU_TIME))
    assert "C 25.0%" in text
    assert "C++ 100.0%" in text


def test_steps_of_a_difference() -> None:
    base = np.asarray([100, 100, 100, 100, 0, 1000, 0])
    new = np.asarray([100, 0, 200, 50, 100, 1001, 0])
    assert svg.diff_steps(base, new).tolist() == [0, -6, 5, -5, 6, 0, 0]


def test_a_difference_draws_the_new_run_and_names_both_values() -> None:
    out = io.StringIO()
    svg.write_diff(trees.difference(), out, "T", "")
    _, columns = data_of(out.getvalue())
    own = {
        columns["frame.name"][frame]: (new, base)
        for frame, new, base in zip(columns["node.frame"], columns["node.own.0"], columns["node.own.1"], strict=True)
    }
    assert own["gone"] == (0, 100 * trees.MS)
    assert own["grown"] == (600 * trees.MS, 300 * trees.MS)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "ns", "0 ns"),
        (999, "ns", "999 ns"),
        (1_500, "ns", "1.5 µs"),
        (12_345_678, "ns", "12.3 ms"),
        (7_126_000_000_000, "ns", "7,126 s"),
        (1536, "bytes", "1.5 KiB"),
        (12_345, "samples", "12,345 samples"),
    ],
)
def test_amounts_as_a_person_reads_them(value: int, unit: str, text: str) -> None:
    assert amount(value, unit) == text


def test_shares_as_a_person_reads_them() -> None:
    assert [share(part, 100_000) for part in (0, 1, 500, 12_345, 100_000)] == ["0.00%", "<0.01%", "0.50%", "12.3%", "100.0%"]
