"""CPU time by source file and line, its file chosen by name, and its listing in the terminal."""

from __future__ import annotations

import json

import pytest
from trees import PROCESS, THREAD, c, py, tree

from aiflame.analyze.kernel.source_text import Origin, SourceText
from aiflame.analyze.source.choice import file_of, to_json
from aiflame.analyze.source.lines import SourceLines, lines_of
from aiflame.attribute.tree import Frame, Kind
from aiflame.render.terminal.source_listing import source_listing
from aiflame.resolve.python.packages import package_of

PROGRAM, TORCH, CODE = "/app/prog.py", "/venv/lib/python3.11/site-packages/torch/nn/linear.py", "/src/work.c"
BODY = ["import work", "", "def main():", "    for x in work.all():", "        f(x)", *[""] * 20, "def f(x):", "    return work.one(x)", ""]
TEXT = "\n".join(BODY)


def line(file: str, number: int, module: str = "") -> Frame:
    return Frame(f"{file.rsplit('/', 1)[-1]}:{number}", Kind.CPU_LINE, file, number, module)


@pytest.fixture
def source() -> SourceLines:
    """Line 5 calls f, which burns 80 of 100: 60 in C without a source, 15 in a library's Python, 5 at its line; line 4 has the rest."""
    main, f, forward = py("main"), py("f"), py("Linear.forward")
    to_f = (PROCESS, THREAD, main, line(PROGRAM, 5), f, line(PROGRAM, 27))
    return lines_of(
        tree(
            ((PROCESS, THREAD, main, line(PROGRAM, 4)), 17),
            ((PROCESS, THREAD, main, line(PROGRAM, 4), c("work"), line(CODE, 9, "libwork.so")), 3),
            (to_f, 5),
            ((*to_f, c("gemm")), 60),
            ((*to_f, forward, line(TORCH, 100)), 15),
        ),
        "cpu-time",
        (PROGRAM,),
    )


def test_a_line_has_its_own_time_and_that_of_its_callees(source: SourceLines) -> None:
    rows = source.of_file(PROGRAM).select("line", "function", "self", "total").rows()
    assert rows == [(4, "main", 17, 20), (5, "main", 0, 80), (27, "f", 5, 80)]
    assert source.total == 100


def test_the_programs_own_files_come_first_then_packages_by_their_time(source: SourceLines) -> None:
    assert source.files.rows() == [(PROGRAM, "", 22, 100), (TORCH, "torch", 15, 15), (CODE, "libwork.so", 3, 3)]


def test_recursion_is_counted_once() -> None:
    deep = lines_of(tree(((py("f"), line(PROGRAM, 2), py("f"), line(PROGRAM, 2)), 4)), "cpu-time")
    assert deep.lines.select("self", "total").rows() == [(4, 4)]


@pytest.mark.parametrize(("wanted", "path"), [(PROGRAM, PROGRAM), ("prog.py", PROGRAM), ("linear.py", TORCH), ("f", PROGRAM), ("g", None)])
def test_a_file_is_known_by_the_end_of_its_path_or_by_a_function(source: SourceLines, wanted: str, path: str | None) -> None:
    assert file_of(source, wanted) == path


def test_the_listing_shows_lines_with_time_and_those_around_them(source: SourceLines) -> None:
    text = SourceText(PROGRAM, Origin.PROFILE, tuple(TEXT.split("\n")))
    listed = [" ".join(row.plain.split()) for row in source_listing(source, PROGRAM, text, 100)]
    assert "17.0% 20.0% ███░ 4 for x in work.all():" in listed
    assert "80.0% ░░░░░░░░░░░░░░░░ 5 f(x)" in listed
    assert "5.0% 80.0% █░░░░░░░░░░░░░░░ 27 return work.one(x)" in listed
    assert [row for row in listed if row.endswith("⋮")] == ["⋮"]
    assert not any(row.startswith("15") for row in listed)
    whole = [" ".join(row.plain.split()) for row in source_listing(source, PROGRAM, text, 100, whole_file=True)]
    assert [row for row in whole if row == "15"] == ["15"]
    assert whole[-1].endswith("27 return work.one(x)")


def test_a_file_without_a_text_has_its_lines_and_says_so(source: SourceLines) -> None:
    listed = [row.plain.strip() for row in source_listing(source, TORCH, SourceText(TORCH, Origin.MISSING), 100)]
    assert any("--source-path" in row for row in listed)
    assert listed[-1].split()[:2] == ["15.0%", "15.0%"]


def test_json_has_every_line(source: SourceLines) -> None:
    document = json.loads(to_json(source, PROGRAM, SourceText(PROGRAM, Origin.PROFILE, tuple(TEXT.split("\n"))), {}))
    assert document["schema"] == "aiflame.annotate/1"
    assert document["file"] == {"path": PROGRAM, "text": "profile", "package": "", "self": 22, "total": 100}
    assert document["lines"][1] == {
        "line": 5, "text": "        f(x)", "function": "main", "self": 0, "total": 80, "self_percent": 0.0, "total_percent": 80.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("file", "package"),
    [
        (PROGRAM, ""),
        (TORCH, "torch"),
        ("/venv/lib/python3.11/site-packages/six.py", "six"),
        ("/usr/lib/python3/dist-packages/yaml/loader.py", "yaml"),
        ("/usr/lib/python3.11/json/decoder.py", "python"),
        ("/opt/lib/python3.13t/json/decoder.py", "python"),
        ("<frozen importlib._bootstrap>", "python"),
        ("/src/pytorch/torch/nn/modules/linear.py", "torch"),
        ("/tmp/torchinductor_me/ab/cabcdef.py", "generated"),
        ("<eval_with_key>.7", "generated"),
        ("<string>", ""),
        ("/home/me/site/torch/train.py", ""),
        ("", ""),
    ],
)
def test_a_file_belongs_to_a_package_by_its_path(file: str, package: str) -> None:
    assert package_of(file) == package
