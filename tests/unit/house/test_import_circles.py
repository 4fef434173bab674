"""No import circles among modules, nor among the folders of native/, through however many others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
SOURCE = REPOSITORY / "src"
NATIVE = REPOSITORY / "native"

Imports = Mapping[str, set[str]]
"""For each module the modules of ours that it imports: wherever in it, for types alone, or in a function."""


def modules(source: Path) -> dict[str, Path]:
    return {_name(path.relative_to(source)): path for path in sorted(source.rglob("*.py"))}


def imports_of(files: Mapping[str, Path]) -> Imports:
    return {name: set(_imported(name, path, files)) - {name} for name, path in files.items()}


def circles(imports: Imports) -> list[list[str]]:
    """Modules that import each other, in groups: in a group everything leads back to everything."""
    left = {name: wanted & set(imports) for name, wanted in imports.items()}
    while ends := {name for name, wanted in left.items() if not wanted & set(left)} | _imported_by_none(left):
        left = {name: wanted for name, wanted in left.items() if name not in ends}
    groups: list[list[str]] = []
    for name in sorted(left):
        if not any(name in group for group in groups):
            groups.append(sorted({name, *(other for other in left if _leads(left, name, other) and _leads(left, other, name))}))
    return [group for group in groups if len(group) > 1]


def _imported_by_none(imports: Imports) -> set[str]:
    return set(imports) - {wanted for several in imports.values() for wanted in several}


def _leads(imports: Imports, one: str, other: str) -> bool:
    seen: set[str] = set()
    ahead = [one]
    while ahead:
        for name in imports[ahead.pop()] & set(imports):
            if name == other:
                return True
            if name not in seen:
                seen.add(name)
                ahead.append(name)
    return False


def _name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(name: str, path: Path, files: Mapping[str, Path]) -> Iterator[str]:
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*(package[: len(package) - node.level + 1] if node.level else []), *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield from (each for each in (whole if whole in files else base,) if each in files)


def folders_included(native: Path) -> Imports:
    """For each folder of C++ files the other folders that its files include headers of; `.` is native/ itself."""
    included: dict[str, set[str]] = {}
    for path in native.rglob("*.?pp"):
        folder = path.parent.relative_to(native).as_posix()
        headers = re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(encoding="utf-8"), re.MULTILINE)
        others = {Path(header).parent.as_posix() for header in headers if (native / header).is_file()}
        included.setdefault(folder, set()).update(others - {folder})
    return included


def test_no_module_imports_a_module_that_imports_it() -> None:
    assert circles(imports_of(modules(SOURCE))) == []


def test_no_native_folder_includes_a_folder_that_includes_it() -> None:
    folders = folders_included(NATIVE)
    assert {".", "base", "hooks/cuda", "hooks/libc"} <= set(folders)
    assert circles(folders) == []


def test_circles_of_native_folders_are_found(tmp_path: Path) -> None:
    texts = {"a/x.hpp": "", "a/x.cpp": '#include "b/c/x.hpp"', "b/c/x.hpp": '#include "x.hpp"', "x.hpp": "", "x.cpp": '#include "a/x.hpp"'}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert circles(folders_included(tmp_path)) == [[".", "a", "b/c"]]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"a": "import p.b", "b": "import p.c", "c": ""}, []),
        ({"a": "import p.b", "b": "from p import a"}, [["p.a", "p.b"]]),
        ({"a": "from .b import x", "b": "from . import c", "c": "def f():\n    from .a import y"}, [["p.a", "p.b", "p.c"]]),
        ({"a": "if TYPE_CHECKING:\n    from p.b import X", "b": "from p.a import Y"}, [["p.a", "p.b"]]),
        ({"a": "import p.b", "b": "import p.a", "c": "import p.a", "d": "import p.e", "e": "import p.d"}, [["p.a", "p.b"], ["p.d", "p.e"]]),
    ],
)
def test_circles_are_found(tmp_path: Path, texts: dict[str, str], expected: list[list[str]]) -> None:
    (tmp_path / "p").mkdir()
    for name, text in texts.items():
        (tmp_path / "p" / f"{name}.py").write_text(text)
    assert circles(imports_of(modules(tmp_path))) == expected
