"""docs/frames.md explains every frame and label in brackets that the sources can show."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "frames.md"
LABEL = re.compile(r"\[[A-Za-z{…][^\[\]\\]*\]")
"""Brackets in a string of the sources; `{}` in it stands for a value that is put in at run time."""

NO_LABELS = {
    *("[anon]", "[heap]", "[stack]", "[uprobes]", "[vsyscall]", "[program]", "[self]"),  # of other tools' files, taken as they are
    *(
        "[KMGT]",
        "[ST]",
        "[abeprs]",
        "[bBdEiIOPqRsSuvx]",
        "[cmWX]",
        "[kmgt]",
        "[lu]",
        "[nt]",
        "[pousr]",
        "[rVK]",
        "[suf]",
    ),  # characters in regular expressions
    *("[PROFILE]", "[REPORT]", "[PROFILE ...]", "[NEW]", "[KERNEL]", "[FOLDER ...]", "[options]", "[{}.md]"),  # usage, a link
    *("[dask]", "[completion]", "[mcp]", "[str]", "[str, ModuleType]", "[str, str]", "[word, value]"),  # extras, types
    *(
        "[aria-current]",
        '[data-group="{}"]',
        '[data-name="{}"]',
        '[data-node="{}"]',
        "[open]",
        "[role=menu]",
        '[tabindex="0"]',
        "[top]",
    ),  # CSS selectors
    *("[bytes]", "[call]", "[context]", "[exit]", "[frame]", "[info]", "[set]", "[top]", "[wanted]", "[work]"),  # operands in assembly
    *("[{}]", "[{}; {}]"),  # `NVIDIA H200 [0]`, a region with its category, arrays in the names of Rust and in generated C++
}
"""Brackets in strings that no person sees as a label."""


def python_strings(text: str) -> Iterator[str]:
    """All but docstrings, f-strings with `{}` for their values."""
    tree = ast.parse(text)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | parts:
            yield node.value


def other_strings(text: str) -> Iterator[str]:
    """Strings of C++ and JavaScript, outside comments."""
    code = re.sub(r"/\*.*?\*/|^\s*//.*?$|\s//.*?$", "", text, flags=re.MULTILINE | re.DOTALL)
    for string in re.finditer(r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`|\'(?:[^\'\\\n]|\\.)*\'', code):
        yield re.sub(r"\$\{[^}]*\}", "{}", string[0][1:-1])


@cache
def labels(path: Path) -> set[str]:
    strings = python_strings if path.suffix == ".py" else other_strings
    in_strings = {label for string in strings(path.read_text(encoding="utf-8")) for label in LABEL.findall(string)}
    # Ranges of characters, such as `[A-Za-z_]`.
    return {label for label in in_strings if label not in NO_LABELS and not re.search("a-z|A-Z|0-9", label)}


def missing(label: str, page: str) -> bool:
    pattern = ".+".join(re.escape(part) for part in re.split(r"\{\w*\}", label))
    return not any(re.fullmatch(pattern, named) for named in re.findall(r"\[[^\[\]]*\]", page))


SOURCES = sorted(
    path
    for folder in ("src/aiflame", "native")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".js", ".cpp", ".hpp", ".inc")
)


def test_every_label_of_the_sources_is_explained() -> None:
    page = PAGE.read_text(encoding="utf-8")
    unexplained = {(path.name, label) for path in SOURCES for label in labels(path) if missing(label, page)}
    assert sorted(unexplained) == [], "explain them in docs/frames.md (or name them in NO_LABELS, if no person sees them)"


def test_every_frame_of_the_page_is_in_the_sources() -> None:
    rows = [line.split(" | ")[0] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    explained = {label for row in rows for label in re.findall(r"`(\[[^\]]*\])", row)}
    patterns = [".+".join(re.escape(part) for part in re.split(r"\{\w*\}", label)) for path in SOURCES for label in labels(path)]
    patterns.append(re.escape("[call]"))  # also an operand in assembly
    assert sorted(label for label in explained if not any(re.fullmatch(pattern, label) for pattern in patterns)) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", '"""[in a docstring]"""\nX = "[a frame]"  # [in a comment]\n', {"[a frame]"}),
        ("a.py", 'X = f"[no {column}]"', {"[no {}]"}),
        ("a.py", 'X = f"[… {number} smaller]"', {"[… {} smaller]"}),
        ("a.py", 'X = re.compile("[A-Za-z_]+")', set()),
        ("a.cpp", '// "[in a comment]"\nauto text = spool::text("[unnamed kernel]");  // "[another]"\n', {"[unnamed kernel]"}),
        ("a.js", "/** `[in a comment]` */\nreturn name || `[no ${name}]`;", {"[no {}]"}),
    ],
)
def test_labels_are_found_in_strings_alone(tmp_path: Path, name: str, text: str, expected: set[str]) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert labels(tmp_path / name) == expected


def test_a_label_that_the_page_lacks_is_missing() -> None:
    assert missing("[lock]", "`[GIL]`")
    assert missing("[no {}]", "`[none]`")
    assert not missing("[no {}]", "`[no step]`")
