"""Data goes one way: what each room of the house may import (docs/architecture.md)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PACKAGE = SOURCE / "aiflame"

PUBLIC = {"errors", "version"}
"""Any room may import these; they import nothing of ours."""
PROFILE = {"profile"}
RESOLVE = PROFILE | {"resolve"}
ATTRIBUTE = RESOLVE | {"attribute"}
ANALYZE = ATTRIBUTE | {"analyze"}
RENDER = ANALYZE | {"render"}
RECORDER = PROFILE | {"recorder"}
EVERYTHING = RENDER | RECORDER | {"exchange", "cli", "api", "demo", ""}

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "version": set(),
    "region": set(),
    "target": {"target"},
    "profile": PROFILE,
    "recorder": RECORDER,
    "resolve": RESOLVE,
    "attribute": ATTRIBUTE,
    "analyze": ANALYZE,
    "render": RENDER,
    "exchange": PROFILE | {"attribute", "exchange"},
    "demo": {"demo"},
    "cli": EVERYTHING,
    "api": RENDER | RECORDER | {"region"},
    "": {"api", "region"},
    "__main__": {"cli"},
}
"""Room (folder, or file of the package itself; "" is `aiflame/__init__.py`) → rooms of ours it may import, beside PUBLIC."""

STANDARD_LIBRARY_ONLY = {"target", "demo", "errors", "version", "region"}
"""Code that runs inside the profiled program, or that it may import: it has nothing but Python."""

MADE_BY_THE_COLLECTOR = {"_aiflame"}
"""Modules that exist in the profiled program alone."""

RECORDING = ("aiflame", "aiflame.cli.main", "aiflame.cli.record", "aiflame.recorder.inside")
"""What `aiflame record` and `aiflame.record()` import."""

FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    inside = path.relative_to(PACKAGE)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem.replace("__init__", "")


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Absolute names of all that a file imports, wherever in it, and their lines."""
    package = ("aiflame", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = (*package[: len(package) - node.level + 1], node.module) if node.level else (node.module,)
            name = ".".join(part for part in base if part)
            if name == "aiflame":
                yield from ((f"aiflame.{alias.name}" if is_room(alias.name) else name, node.lineno) for alias in node.names)
            else:
                yield name, node.lineno


def is_room(name: str) -> bool:
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()


def forbidden(path: Path) -> list[str]:
    """The imports of a file that its room may not have."""
    room = room_of(path)
    allowed = MAY_IMPORT[room] | PUBLIC
    wrong = []
    for name, line in imports(path):
        top, _, rest = name.partition(".")
        if top == "aiflame":
            if rest.partition(".")[0] not in allowed:
                wrong.append(f"line {line}: {name}")
        elif room in STANDARD_LIBRARY_ONLY and top not in sys.stdlib_module_names | MADE_BY_THE_COLLECTOR:
            wrong.append(f"line {line}: {name}")
    return wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_what_lies_before_it(path: Path) -> None:
    assert forbidden(path) == []


def test_every_room_is_in_the_table() -> None:
    assert {room_of(path) for path in FILES} <= set(MAY_IMPORT)


@pytest.mark.parametrize("module", RECORDING)
def test_recording_needs_the_standard_library_alone(module: str) -> None:
    """-S: nothing that was installed can be imported."""
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import {module}"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


@pytest.mark.parametrize(
    ("file", "text", "wrong"),
    [
        ("profile/x.py", "from aiflame.resolve import symbols", ["line 1: aiflame.resolve"]),
        ("profile/x.py", "from ..resolve.names import readable", ["line 1: aiflame.resolve.names"]),
        ("profile/x.py", "from ..errors import AiflameError\nfrom .schema import TABLES", []),
        ("render/x.py", "def f():\n    import aiflame.cli.main", ["line 2: aiflame.cli.main"]),
        ("render/x.py", "from aiflame import exchange", ["line 1: aiflame.exchange"]),
        ("render/x.py", "from aiflame import open", ["line 1: aiflame"]),
        ("attribute/x.py", "import numpy\nfrom aiflame.profile.kinds import Kind", []),
        ("target/x.py", "import os, polars", ["line 1: polars"]),
    ],
)
def test_the_rules_find_what_breaks_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, wrong: list[str]) -> None:
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    for room in MAY_IMPORT:
        (tmp_path / room).mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    assert forbidden(tmp_path / file) == wrong
