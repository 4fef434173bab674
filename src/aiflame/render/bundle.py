"""Several ES modules as one script, for a page that must open from a disk, where browsers refuse `import`.

The modules keep to a narrow form, so that this needs no parser: imports stand one a line at the top, as
`import { one, two as other } from "./module.js";` (or `"../module.js"`), and exports as `export function`, `export async function`,
`export class` or `export const`. Each module becomes a function of its own, so names stay private to it. Comments that stand on lines of
their own, types (`/** … */`) and indentation serve readers and checkers of the modules: bundles leave them out.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

WEB = Path(__file__).parent / "web"
_IMPORT = re.compile(r'^import \{ ([\w ,]+?) \} from "(\.{1,2}/[\w/.-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.MULTILINE)
_NOT_CODE = re.compile(r"^[ \t]*(?:(?:/\*\*.*?\*/|//[^\n]*)?\n)?|/\*\* @[^\n]*?\*/ ?", re.MULTILINE | re.DOTALL)
_OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def bundle(folder: Path, entry: str) -> str:
    """The script that runs the module `entry` of the folder, with everything that it imports."""
    ordered: dict[str, str] = {}
    _add(folder, entry, ordered, ())
    variables = {name: f"m{place}" for place, name in enumerate(ordered)}
    return "\n".join(('(() => {\n"use strict";', *(_wrapped(name, text, variables) for name, text in ordered.items()), "})();\n"))


@functools.cache
def packaged(entry: str) -> str:
    """The bundle of a module in `web/`. It is made once: the files of the package do not change while a program runs."""
    return bundle(WEB, entry)


def _add(folder: Path, name: str, ordered: dict[str, str], above: tuple[str, ...]) -> None:
    """Adds a module after the modules that it imports."""
    if name in ordered:
        return
    assert name not in above, f"{name} imports itself through {' and '.join(above)}"
    text = (folder / name).read_text(encoding="utf-8")
    for _, wanted in _IMPORT.findall(text):
        _add(folder, _beside(name, wanted), ordered, (*above, name))
    ordered[name] = text


def _wrapped(name: str, text: str, variables: Mapping[str, str]) -> str:
    """A module as a function, whose result (its exports) is kept in its variable."""
    exported = [match[1] for match in _EXPORT.findall(text)]
    text = _IMPORT.sub(lambda match: f"const {{ {match[1].replace(' as ', ': ')} }} = {variables[_beside(name, match[2])]};\n", text)
    text = _NOT_CODE.sub("", _EXPORT.sub(r"\1 \2", text))
    left = _OTHER.search(text)
    assert left is None, f"{name}: {left and left[0]!r} is not in the form that bundling knows"
    return f"const {variables[name]} = (() => {{\n{text}return {{ {', '.join(exported)} }};\n}})();"


def _beside(name: str, wanted: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), wanted))
