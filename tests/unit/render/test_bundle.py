"""Several modules as one script, without comments and indentation."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from aiflame.render.bundle import WEB, bundle, packaged

NODE = shutil.which("node")
ENTRIES = ("flame_svg/main.js", "report/page/main.js", "report/worker/worker.js")


def printed(folder: Path, files: Mapping[str, str]) -> str:
    """Output of the bundle of `main.js`."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert NODE is not None
    return subprocess.run([NODE, "-"], input=bundle(folder, "main.js"), capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_modules_see_their_imports_and_nothing_else(tmp_path: Path) -> None:
    files = {
        "main.js": 'import { twice, one as other } from "./low/math.js";\nconst one = 5;\nconsole.log(twice(one), other, typeof hidden);\n',
        "low/math.js": 'import { base } from "../base.js";\nconst hidden = 2;\nexport const one = base;\n'
        "export function twice(x) {\n  return hidden * x;\n}\n",
        "base.js": "export const base = 7;\n",
    }
    assert printed(tmp_path, files) == "10 7 undefined\n"


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_comments_and_types_are_left_out_and_texts_stay(tmp_path: Path) -> None:
    text = """// first
/** @typedef {import("./other.js").Other} Other */
/**
 * Says it.
 * @param {string} text
 */
export function say(/** @type {string} */ text) {
  // reason
  const said = /** @type {any} */ (text); // beside
  return "http://x /* no comment */" + said;
}

console.log(say("//"));
"""
    script = tmp_path / "main.js"
    assert printed(tmp_path, {"main.js": text}) == "http://x /* no comment *///\n"
    bundled = bundle(tmp_path, script.name)
    assert [word for word in ("first", "typedef", "@", "reason", "Says") if word in bundled] == []


@pytest.mark.parametrize("text", ['export * from "./a.js";\n', 'import a from "./a.js";\n', "export default 1;\n", "export { a };\n"])
def test_another_form_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.js").write_text("export const a = 1;\n")
    (tmp_path / "main.js").write_text(text)
    with pytest.raises(AssertionError, match="not in the form"):
        bundle(tmp_path, "main.js")


def test_a_circle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('import { b } from "./main.js";\nexport const a = 1;\n')
    (tmp_path / "main.js").write_text('import { a } from "./a.js";\nexport const b = 1;\n')
    with pytest.raises(AssertionError, match="imports itself"):
        bundle(tmp_path, "main.js")


def test_no_text_of_several_lines_could_lose_its_indentation() -> None:
    scripts = sorted(WEB.rglob("*.js"))
    assert scripts
    for path in scripts:
        code = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith(("*", "/"))]
        assert [line for line in code if line.partition(" // ")[0].count("`") % 2] == [], path


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("entry", ENTRIES)
def test_our_own_scripts_are_well_formed_and_have_no_comment_lines(entry: str) -> None:
    assert NODE is not None
    script = packaged(entry)
    assert script == bundle(WEB, entry)
    subprocess.run([NODE, "--check", "-"], input=script, text=True, check=True, timeout=120)
    assert [line for line in script.splitlines() if line.lstrip().startswith(("//", "/*", "* "))] == []
