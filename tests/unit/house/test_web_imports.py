"""Scripts of the pages: which folder may import which (docs/architecture.md, "The report")."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from test_import_circles import circles

from aiflame.render.bundle import WEB

VIEWS = {
    f"report/page/{view}" for view in ("code", "flame", "limits", "memory", "overview", "ranks", "scope", "source", "tables", "timeline")
}
VIEW_MAY_IMPORT = {"", "report/shared", "report/page/ui"}
MAY_IMPORT: dict[str, set[str]] = {
    "": set(),
    "flame": {""},
    "flame_svg": {"", "flame"},
    "report/shared": set(),
    "report/worker": {"", "flame", "report/shared"},
    "report/page/ui": {"", "report/shared"},
    **dict.fromkeys(VIEWS, VIEW_MAY_IMPORT),
    "report/page/flame": {*VIEW_MAY_IMPORT, "flame"},
    "report/page": VIEWS | VIEW_MAY_IMPORT,
}
"""Folder below `render/web/` → folders that it may import, beside itself. Both pages share `flame/` and the files in no folder."""

SCRIPTS = {"flame_svg/main.js", "report/page/main.js", "report/worker/worker.js"}
"""Entry scripts. Each is bundled with the modules that it imports."""

MOST_FILES = 30
IMPORT = re.compile(r'^import\b.*? from "([^"]+)";$', re.MULTILINE)
PAGE_ONLY = re.compile(r"\b(?:document|window|localStorage|history)\.")


def imports(web: Path) -> Mapping[str, set[str]]:
    """For each script below `web` those that it imports."""
    files = {path.relative_to(web).as_posix(): path.read_text(encoding="utf-8") for path in sorted(web.rglob("*.js"))}
    return {
        name: {posixpath.normpath(posixpath.join(posixpath.dirname(name), to)) for to in IMPORT.findall(text)}
        for name, text in files.items()
    }


def forbidden(graph: Mapping[str, set[str]]) -> list[str]:
    """Imports that cross from a folder into one that it may not import."""
    folder = posixpath.dirname
    return [
        f"{name} imports {wanted}"
        for name in sorted(graph)
        for wanted in sorted(graph[name])
        if folder(wanted) not in MAY_IMPORT[folder(name)] | {folder(name)}
    ]


def reached(graph: Mapping[str, set[str]], entry: str) -> set[str]:
    """The modules in a script's bundle."""
    seen, ahead = {entry}, [entry]
    while ahead:
        new = graph[ahead.pop()] - seen
        seen |= new
        ahead += new
    return seen


GRAPH = imports(WEB)


def test_worker_page_and_shared_modules_keep_to_their_imports() -> None:
    assert forbidden(GRAPH) == []


def test_every_folder_of_scripts_is_in_the_table() -> None:
    assert {posixpath.dirname(name) for name in GRAPH} == set(MAY_IMPORT)


def test_no_folder_may_import_one_that_may_import_it() -> None:
    assert circles(MAY_IMPORT) == []


def test_no_script_imports_a_script_that_imports_it() -> None:
    assert circles(GRAPH) == []


def test_every_script_is_bundled() -> None:
    assert {name for entry in SCRIPTS for name in reached(GRAPH, entry)} == set(GRAPH)


def test_shared_modules_are_used_by_both_sides() -> None:
    shared = {name for name in GRAPH if posixpath.dirname(name) == "report/shared"}
    assert shared <= reached(GRAPH, "report/worker/worker.js")
    assert shared <= reached(GRAPH, "report/page/main.js")


def test_both_flame_graphs_have_the_shared_parts() -> None:
    shared = {name for name in GRAPH if posixpath.dirname(name) == "flame"}
    assert shared <= reached(GRAPH, "flame_svg/main.js")
    assert shared <= reached(GRAPH, "report/page/main.js") | reached(GRAPH, "report/worker/worker.js")


def test_the_workers_modules_import_nothing_of_the_page() -> None:
    texts = {name: (WEB / name).read_text(encoding="utf-8") for name in reached(GRAPH, "report/worker/worker.js")}
    assert {name: PAGE_ONLY.findall(text) for name, text in texts.items() if PAGE_ONLY.search(text)} == {}


@pytest.mark.parametrize("folder", sorted({path.parent for path in WEB.rglob("*.*")}), ids=lambda folder: str(folder.relative_to(WEB)))
def test_no_folder_of_scripts_is_too_full(folder: Path) -> None:
    assert sum(path.is_file() for path in folder.iterdir()) <= MOST_FILES


@pytest.mark.parametrize(
    ("name", "line", "wrong"),
    [
        ("report/worker/x.js", 'import { a } from "../page/ui/dom.js";', ["report/worker/x.js imports report/page/ui/dom.js"]),
        ("report/page/ui/x.js", 'import { a } from "../../worker/nodes.js";', ["report/page/ui/x.js imports report/worker/nodes.js"]),
        ("report/page/x.js", 'import { a } from "../worker/nodes.js";', ["report/page/x.js imports report/worker/nodes.js"]),
        ("report/shared/x.js", 'import { a } from "../worker/nodes.js";', ["report/shared/x.js imports report/worker/nodes.js"]),
        ("report/shared/x.js", 'import { a } from "../page/ui/dom.js";', ["report/shared/x.js imports report/page/ui/dom.js"]),
        ("report/page/flame/x.js", 'import { a } from "../scope/view.js";', ["report/page/flame/x.js imports report/page/scope/view.js"]),
        ("report/page/flame/x.js", 'import { a as b } from "./menu.js";\nimport { c } from "../../../text.js";', []),
        ("report/worker/x.js", 'import { a } from "../shared/sorted.js";', []),
    ],
)
def test_the_rules_find_a_broken_rule(tmp_path: Path, name: str, line: str, wrong: list[str]) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(line + "\n")
    assert forbidden(imports(tmp_path)) == wrong


def test_an_import_circle_is_found(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        (tmp_path / f"{name}.js").write_text(f'import {{ x }} from "./{other}.js";\n')
    assert circles(imports(tmp_path)) == [["a.js", "b.js", "c.js"]]
