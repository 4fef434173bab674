"""Files of ours that pages, comments and docstrings name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "aiflame"
ROOMS = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file())
NAMED = re.compile(rf"(?<![\w./-])(?:src/aiflame/)?((?:{'|'.join(ROOMS)})/[\w/]+\.(?:py|js|css))\b")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.js")])


def missing(text: str) -> list[str]:
    return [name for name in NAMED.findall(text) if not (PACKAGE / name).is_file()]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_are_named_are_there(page: Path) -> None:
    assert missing(page.read_text(encoding="utf-8")) == []


def test_a_file_that_has_moved_is_found() -> None:
    assert missing("as `attribute/nodes.py` has it, and `src/aiflame/attribute/tree.py`") == ["attribute/nodes.py"]
