"""Data goes one way: which rooms each room of the house may import (docs/architecture.md)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from interpreters import VERSIONS, interpreter

SOURCE = Path(__file__).parents[3] / "src"
PACKAGE = SOURCE / "aiflame"

PUBLIC = {"errors", "json_text", "values", "version"}
"""Any room may import these; they import nothing of ours."""
SPOOL = {"profile.schema", "profile.secrets", "profile.folder", "profile.spool"}
TABLES = SPOOL | {"profile.tables"}
SEALING = TABLES | {"profile.ranks", "profile.sealing"}
PROFILE = SEALING | {"profile"}
INTRA = PROFILE | {"intra"}
NAMES = PROFILE | {"resolve.files", "resolve.names"}
RESOLVE = INTRA | NAMES | {"resolve", "resolve.native", "resolve.device", "resolve.jit", "resolve.python"}
TREE = PROFILE | {"attribute", "attribute.arrays"}
STACKS = RESOLVE | TREE | {"attribute.memory", "attribute.stacks"}
MEANING = STACKS | {"attribute.meaning"}
DEVICES = MEANING | {"attribute.devices"}
LIMITS = DEVICES | {"attribute.counters", "attribute.limits"}
TREES = LIMITS | {"attribute.transforms", "attribute.energy", "attribute.trees"}
ATTRIBUTE = TREES | {"attribute.merging", "attribute.sites", "attribute.timeline", "memory"}
ASKED = ATTRIBUTE | {"analyze"}
ON_DEVICES = ASKED | {"analyze.device"}
ANALYZE = ON_DEVICES | {
    f"analyze.{part}"
    for part in ("diff", "findings", "gate", "intra", "kernel", "limits", "memory", "overview", "ranks", "source", "stats", "tables")
}
RENDER = ANALYZE | {"render", "render.gate", "render.terminal", "render.report", "render.flame_svg", "render.perfetto"}
RECORDER = PROFILE | {"recorder", "imported_with"}
AGENTS = RENDER | RECORDER | {"api", ""}
EXCHANGE = {"exchange.readers", "exchange.writers"}
EVERYTHING = AGENTS | EXCHANGE | {"dump", "cli", "demo", "agents", "always", "push", "store"}

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "json_text": set(),
    "values": set(),
    "version": set(),
    "region": set(),
    "flight": set(),
    "memory": set(),
    "fan_out": {"imported_with"},
    "imported_with": set(),
    "target": set(),
    "profile.schema": set(),
    "profile.secrets": set(),
    "profile.folder": {"profile.schema"},
    "profile.spool": SPOOL,
    "profile.tables": SPOOL,
    "profile.ranks": TABLES,
    "profile.sealing": SEALING,
    "profile": SEALING,
    "recorder": PROFILE | {"flight", "imported_with"},
    "intra": PROFILE,
    "dump": RECORDER | RESOLVE,
    "resolve.files": PROFILE,
    "resolve.names": PROFILE,
    "resolve.native": NAMES,
    "resolve.device": NAMES | INTRA | {"resolve.native"},
    "resolve.jit": NAMES,
    "resolve.python": NAMES,
    "resolve": RESOLVE,
    "attribute.arrays": set(),
    "attribute": TREE,
    "attribute.memory": TREE,
    "attribute.stacks": RESOLVE | TREE | {"attribute.memory"},
    "attribute.transforms": STACKS,
    "attribute.meaning": STACKS,
    "attribute.devices": MEANING,
    "attribute.energy": DEVICES,
    "attribute.counters": DEVICES,
    "attribute.limits": LIMITS,
    "attribute.merging": DEVICES | {"attribute.counters"},
    "attribute.trees": TREES,
    "attribute.sites": TREES,
    "attribute.timeline": DEVICES | {"attribute.counters", "attribute.transforms", "memory"},
    "analyze": ATTRIBUTE,
    "analyze.kernel": ATTRIBUTE,
    "analyze.memory": ATTRIBUTE | {"analyze"},
    "analyze.source": ASKED | {"analyze.kernel"},
    "analyze.device": ASKED,
    "analyze.intra": ASKED,
    "analyze.limits": ON_DEVICES,
    "analyze.overview": ON_DEVICES | {"analyze.limits"},
    "analyze.diff": ON_DEVICES,
    "analyze.gate": ON_DEVICES | {"analyze.diff", "analyze.limits", "analyze.overview"},
    "analyze.stats": ON_DEVICES | {"analyze.limits"},
    "analyze.tables": ON_DEVICES | {"analyze.limits", "analyze.memory"},
    "analyze.ranks": ON_DEVICES | {"analyze.limits", "analyze.tables", "fan_out"},
    "analyze.findings": ON_DEVICES | {"analyze.memory", "analyze.intra", "analyze.limits", "analyze.overview", "analyze.ranks"},
    "render": ANALYZE,
    "render.flame_svg": ANALYZE | {"render"},
    "render.gate": ANALYZE | {"render"},
    "render.perfetto": ANALYZE | {"render"},
    "render.terminal": ANALYZE | {"render"},
    "render.report": ANALYZE | {"render"},
    "exchange.writers": ATTRIBUTE,
    "exchange.readers": RESOLVE | TREE | {"fan_out"},
    "exchange": set(),
    "push": ATTRIBUTE | {"api", "exchange.writers"},
    "demo": set(),
    "agents": AGENTS,
    "store": TREE | {"exchange.readers"},
    "always": AGENTS | EXCHANGE | {"store"},
    "cli": EVERYTHING,
    "api": RENDER | RECORDER | {"exchange.readers", "region", "store"},
    "notebook": RENDER | RECORDER | {"api"},
    "": {"api", "flight", "notebook", "region"},
    "__main__": {"cli"},
}
"""Room → rooms of ours it may import, beside itself and PUBLIC. A room is a file of the package ("" is `__init__.py`) or a folder.
Of folders that are DIVIDED each folder in them is a room, and the files that lie beside these are one, by the folder's own name."""

DIVIDED = {room.partition(".")[0] for room in MAY_IMPORT if "." in room}

STANDARD_LIBRARY_ONLY = {"target", "demo", "errors", "json_text", "values", "version", "region", "memory"}
"""Code that runs inside the profiled program, or that it may import: it has nothing but Python."""

MADE_BY_THE_COLLECTOR = {"_aiflame"}
"""Modules that exist in the profiled program alone."""

RECORDING = ("aiflame", "aiflame.cli.main", "aiflame.cli.record", "aiflame.recorder.inside")
"""Modules that `aiflame record` and `aiflame.record()` import."""

NOT_BEFORE_THE_PROGRAM = {
    *("dataclasses", "inspect", "typing", "threading", "subprocess", "shutil", "tempfile", "hashlib", "ctypes", "socket", "logging"),
    *("numpy", "polars", "rich"),
    *("aiflame.api", "aiflame.cli.support.recorded", "aiflame.recorder.end", "aiflame.recorder.telemetry"),
    *(
        "aiflame.profile.schema.all_tables",
        "aiflame.profile.schema.enums",
        "aiflame.profile.opening",
        "aiflame.profile.tables.store",
        "aiflame.profile.spool.living",
        "aiflame.profile.folder.typed_json",
    ),
}
"""Modules that take long to import, while a person waits for the program to start."""

FILES = sorted(PACKAGE.rglob("*.py"))

NATIVE = SOURCE.parent / "native"
NATIVE_FILES = sorted(path for suffix in ("*.cpp", "*.hpp") for path in NATIVE.rglob(suffix))
GENERATED = "aiflame_schema.hpp"
"""Defines a profile's tables: each folder that may import the spool may include it."""


def room_of(path: Path) -> str:
    inside = path.relative_to(PACKAGE)
    if len(inside.parts) == 1:
        return inside.stem.replace("__init__", "")
    return ".".join(inside.parts[: min(2, len(inside.parts) - 1)]) if inside.parts[0] in DIVIDED else inside.parts[0]


def room_of_module(name: str) -> str:
    """The room of a module or package, by its name without `aiflame.`."""
    parts = name.split(".")
    within = ".".join(parts[:2])
    return within if within in MAY_IMPORT else parts[0]


@cache
def imports(path: Path) -> list[tuple[str, int]]:
    return list(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, int]]:
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
    allowed = MAY_IMPORT[room] | PUBLIC | {room}
    wrong = []
    for name, line in imports(path):
        top, _, inner = name.partition(".")
        if top == "aiflame":
            if room_of_module(inner) not in allowed:
                wrong.append(f"line {line}: {name}")
        elif room in STANDARD_LIBRARY_ONLY and top not in sys.stdlib_module_names | MADE_BY_THE_COLLECTOR:
            wrong.append(f"line {line}: {name}")
    return wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_what_lies_before_it(path: Path) -> None:
    assert forbidden(path) == []


def test_every_room_is_in_the_table() -> None:
    assert {room_of(path) for path in FILES} <= set(MAY_IMPORT)


def test_no_room_may_import_one_that_may_import_it() -> None:
    left = {room: allowed - {room} for room, allowed in MAY_IMPORT.items()}
    while ground := {room for room, allowed in left.items() if not allowed & set(left)}:
        left = {room: allowed for room, allowed in left.items() if room not in ground}
    assert set(left) == set()


@pytest.mark.parametrize("room", sorted(room for room in MAY_IMPORT if room.partition(".")[0] in DIVIDED))
def test_a_room_says_what_it_is_for(room: str) -> None:
    folder = PACKAGE / room.replace(".", "/")
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))


def test_every_dependency_is_imported() -> None:
    """Beside the vendor's disassembler, which is a program."""
    declared = re.search(r"^dependencies = \[\n(.*?)^\]", (SOURCE.parent / "pyproject.toml").read_text(), re.MULTILINE | re.DOTALL)
    assert declared is not None
    names = set(re.findall(r'^  "([\w-]+)', declared[1], re.MULTILINE)) - {"nvidia-cuda-nvdisasm"}
    assert names - {name.partition(".")[0] for path in FILES for name, _ in imports(path)} == set()


@pytest.mark.parametrize("module", RECORDING)
def test_recording_needs_the_standard_library_alone(module: str) -> None:
    """-S: nothing that was installed can be imported."""
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import {module}"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_program_starts_before_slow_modules_are_imported(tmp_path: Path, version: str) -> None:
    code = (
        "import os, sys\n"
        f"sys.path.insert(0, {str(SOURCE)!r})\n"
        "os.register_at_fork(before=lambda: print(*sys.modules, flush=True))\n"
        "from aiflame.cli.main import main\n"
        "sys.exit(main())"
    )
    arguments = ["record", "--no-seal", "-q", "-o", str(tmp_path / "a.aiflame"), "--", "true"]
    imported = modules_of(version, code, *arguments)
    assert "aiflame.recorder.run" in imported
    assert imported & NOT_BEFORE_THE_PROGRAM == set()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("arguments", [("--help",), ("record", "--help"), ("top", "--help")], ids=" ".join)
def test_help_imports_little(arguments: tuple[str, ...], version: str) -> None:
    code = (
        "import sys\n"
        f"sys.path.insert(0, {str(SOURCE)!r})\n"
        "from aiflame.cli.main import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit:\n"
        "    pass\n"
        "print('\\n=== modules:', *sys.modules)"
    )
    imported = modules_of(version, code, *arguments)
    assert "aiflame.cli.support.parser" in imported
    assert imported & NOT_BEFORE_THE_PROGRAM == set()


def modules_of(version: str, code: str, *arguments: str) -> set[str]:
    """Names of the modules that this Python has imported, as the code prints them."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no CPython {version} here")
    process = subprocess.run([python, "-I", "-S", "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(process.stdout.rpartition("=== modules:")[2].split())


@pytest.mark.parametrize(
    ("file", "text", "wrong"),
    [
        ("profile/x.py", "from aiflame.resolve import symbols", ["line 1: aiflame.resolve"]),
        ("profile/x.py", "from ..resolve.names import readable", ["line 1: aiflame.resolve.names"]),
        ("profile/x.py", "from ..errors import AiflameError\nfrom .schema import TABLES", []),
        ("render/x.py", "def f():\n    import aiflame.cli.main", ["line 2: aiflame.cli.main"]),
        ("render/x.py", "from aiflame import exchange", ["line 1: aiflame.exchange"]),
        ("render/x.py", "from aiflame import open", ["line 1: aiflame"]),
        ("attribute/x.py", "import numpy\nfrom aiflame.profile.schema.kinds import Kind", []),
        ("attribute/arrays/x.py", "from aiflame.attribute.tree import Tree", ["line 1: aiflame.attribute.tree"]),
        ("attribute/tree.py", "from aiflame.attribute.stacks import functions", ["line 1: aiflame.attribute.stacks"]),
        ("attribute/devices/x.py", "from aiflame.attribute.meaning.context import BRINGS\nfrom .work import work", []),
        ("analyze/x.py", "from aiflame.analyze.ranks.facts import of_rank", ["line 1: aiflame.analyze.ranks.facts"]),
        ("target/x.py", "import os, polars", ["line 1: polars"]),
    ],
)
def test_the_rules_find_a_broken_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, wrong: list[str]) -> None:
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    for room in MAY_IMPORT:
        (tmp_path / room.replace(".", "/")).mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    assert forbidden(tmp_path / file) == wrong


def native_rooms(page: str) -> dict[str, set[str]]:
    """Each room of native/ → rooms that it may import, as the table says."""
    cells = [[cell.strip() for cell in line.split("|")] for line in page.splitlines() if line.startswith("| `native/")]
    names = {row[1].removeprefix("`native/").partition("/")[0].partition(".")[0]: row[3] for row in cells}
    return {name: {room for room in re.findall(r"\w+", allowed) if room in names} for name, allowed in names.items()}


def room_of_header(name: str) -> str:
    return "spool" if name == GENERATED else name.partition("/")[0].partition(".")[0]


def forbidden_in_native(path: Path, native: Path, rooms: dict[str, set[str]]) -> list[str]:
    """The includes of a file that its room may not have."""
    room = room_of_header(path.relative_to(native).as_posix())
    includes = re.finditer(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE)
    return [header[1] for header in includes if room_of_header(header[1]) not in rooms[room] | {room}]


NATIVE_ROOMS = native_rooms((SOURCE.parent / "docs/architecture.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", NATIVE_FILES, ids=lambda path: str(path.relative_to(NATIVE)))
def test_a_native_room_includes_only_what_lies_before_it(path: Path) -> None:
    assert forbidden_in_native(path, NATIVE, NATIVE_ROOMS) == []


def test_every_native_room_is_in_the_table() -> None:
    assert {room_of_header(path.relative_to(NATIVE).as_posix()) for path in NATIVE_FILES} == set(NATIVE_ROOMS)


@pytest.mark.parametrize(
    ("file", "text", "wrong"),
    [
        ("sampler/x.cpp", '#include "hooks/x.hpp"', ["hooks/x.hpp"]),
        ("sampler/x.cpp", '#include <hooks/x.h>\n#include "sampler/x.hpp"\n#include "spool/spool.hpp"', []),
        ("hooks/x.cpp", '#include "collector.hpp"', []),
        ("unwind/x.cpp", '  #  include "collector.hpp"', ["collector.hpp"]),
        ("base/x.hpp", f'#include "{GENERATED}"', [GENERATED]),
        ("unwind/x.hpp", f'#include "{GENERATED}"', []),
        ("agent/x.cpp", '#include "base/sys.hpp"', ["base/sys.hpp"]),
        ("collector.cpp", '#include "hooks/x/x.hpp"', ["hooks/x/x.hpp"]),
        ("collector.cpp", '#include "all_hooks.hpp"', []),
        ("hooks/x/x.cpp", '#include "records/x.hpp"', []),
    ],
)
def test_the_native_rules_find_a_broken_rule(tmp_path: Path, file: str, text: str, wrong: list[str]) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    assert forbidden_in_native(tmp_path / file, tmp_path, NATIVE_ROOMS) == wrong


def test_test_modules_have_names_of_their_own() -> None:
    """pytest imports them by their names alone."""
    names = [path.name for path in (SOURCE.parent / "tests").rglob("test_*.py")]
    assert sorted(set(names)) == sorted(names)


def test_tests_import_no_test_of_another_folder() -> None:
    """Shared code lies in `builders/`, which pytest finds from everywhere."""
    tests = SOURCE.parent / "tests"
    folders = {path.stem: path.parent for path in tests.rglob("test_*.py")}
    wrong = [
        f"{path.relative_to(tests)}: {name}"
        for path in sorted(tests.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        if folders.get(name, path.parent) != path.parent
    ]
    assert wrong == []
